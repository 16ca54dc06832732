#include "sim/context/cp_comm_type.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/base/error.h"

namespace sim {

CpCommType cp_comm_type(std::string_view name) {
  const auto* const found = std::find(kCpCommTypes.begin(), kCpCommTypes.end(), name);
  if (found != kCpCommTypes.end()) return static_cast<CpCommType>(found - kCpCommTypes.begin());
  refuse(
      {.code = "cp_comm_type",
       .option = "--cp-comm-type",
       .numbers = fmt::format("'{}'", name),
       .rule = fmt::format("context-parallel ranks communicate by one of {}", fmt::join(kCpCommTypes, ", ")),
       .hint = "--cp-comm-type p2p"});
}

}  // namespace sim
