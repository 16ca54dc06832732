#include "verify/output/output.h"

#include <csignal>
#include <cstdlib>
#include <iostream>
#include <string_view>
#include <sys/ioctl.h>
#include <unistd.h>

namespace verify {

namespace {

bool is_terminal(int file) {
  const char* terminal = std::getenv("TERM");
  return isatty(file) == 1 && terminal != nullptr && std::string_view(terminal) != "dumb";
}

/// Returns the width of standard output. It is a fixed number if standard output is not a terminal, so that
/// the text in a file does not depend on the terminal.
int terminal_columns() {
  winsize size = {};
  if (isatty(STDOUT_FILENO) != 1 || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
    return 100;
  return size.ws_col;
}

}  // namespace

const char* verdict_name(ExitCode code) {
  constexpr const char* kNames[] = {"verified",    "falsified", "refused",         "broken",
                                    "unavailable", "suspect",   "verified in part"};
  return code == kInterrupted ? "interrupted" : kNames[code];
}

Output terminal_output() {
  std::signal(SIGXFSZ, SIG_IGN);  // a file as large as the system lets it be is then an error of writing
  std::ios::sync_with_stdio(false);
  const bool colour = is_terminal(STDOUT_FILENO) && std::getenv("NO_COLOR") == nullptr;
  const bool shows_line = is_terminal(STDERR_FILENO);
  return {std::cout, std::cerr, colour, shows_line, !shows_line, terminal_columns()};
}

}  // namespace verify
