#include <cstdlib>
#include <iostream>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

#include "verify/program.h"

namespace {

bool is_terminal(int file) {
  const char* terminal = std::getenv("TERM");
  const bool dumb = terminal == nullptr || std::string_view(terminal) == "dumb";
  return isatty(file) == 1 && !dumb && std::getenv("NO_COLOR") == nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  return verify::run_program(arguments,
                             {std::cout, std::cerr, is_terminal(STDOUT_FILENO), is_terminal(STDERR_FILENO)});
}
