#include "sim/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace sim {

void check_failed(const char* condition, const char* file, int line) {
  std::fprintf(
      stderr,
      "shardproof: bug in shardproof: SIM_CHECK(%s) failed at %s:%d. Please report it with the command.\n",
      condition, file, line);
  std::fflush(stderr);
  std::abort();
}

}  // namespace sim
