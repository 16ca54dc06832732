#pragma once

/// Where a command writes. Results go to `out`; in JSON format `out` holds one JSON document and nothing
/// else. Everything that is not the result (refusals, progress, warnings of the program) goes to `err`.

#include <ostream>

namespace verify {

struct Output {
  std::ostream& out;
  std::ostream& err;
  bool out_is_terminal = false;  // colour only then
  bool err_is_terminal = false;  // progress only then
};

/// The exit codes of the program.
enum ExitCode : int {
  kVerified = 0,   // all that was asked holds
  kFalsified = 1,  // a check failed
  kRefused = 2,    // bad usage, scenario or layout
};

}  // namespace verify
