#pragma once

/// Where a command writes. Results go to `out`; in JSON format `out` holds one JSON document and nothing
/// else. Everything that is not the result (refusals, progress, warnings of the program) goes to `err`.

#include <ostream>

namespace verify {

struct Output {
  std::ostream& out;
  std::ostream& err;
  bool colour = false;    // `out` is a terminal that wants colours
  bool progress = false;  // `err` is a terminal: a line that says how far long work is
  int columns = 100;      // of the terminal that `out` is; elsewhere as if it were one
};

/// The exit codes of the program.
enum ExitCode : int {
  kVerified = 0,     // all that was asked holds
  kFalsified = 1,    // a check failed
  kRefused = 2,      // bad usage, scenario or layout
  kBroken = 3,       // a rank program broke a contract: deadlock, mismatch, ...
  kUnavailable = 4,  // the backend is not there
};

}  // namespace verify
