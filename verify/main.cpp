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
  return isatty(file) == 1 && terminal != nullptr && std::string_view(terminal) != "dumb";
}

}  // namespace

int main(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const bool colour = is_terminal(STDOUT_FILENO) && std::getenv("NO_COLOR") == nullptr;
  return verify::run_program(arguments, {std::cout, std::cerr, colour, is_terminal(STDERR_FILENO)});
}
