#pragma once

/// The streams to which a command writes. The result goes to `out`; in JSON format `out` gets one JSON
/// document and nothing else. Everything else (refusals, progress, warnings of the program) goes to `err`.

#include <ostream>

namespace verify {

struct Output {
  std::ostream& out;
  std::ostream& err;
  bool colour = false;    // `out` is a terminal that shows colours
  bool progress = false;  // `err` is a terminal, so that long work shows a line of progress
  bool lines = false;     // `err` is no terminal, and long work writes a line now and then
  int columns = 100;      // width of the terminal; 100 if `out` is not a terminal
};

/// The exit codes of the program.
enum ExitCode : int {
  kVerified = 0,       // every check holds
  kFalsified = 1,      // a check failed
  kRefused = 2,        // bad usage, scenario or layout
  kBroken = 3,         // a rank program broke a contract: deadlock, mismatch, ...
  kUnavailable = 4,    // the backend is not available
  kSuspect = 5,        // every check holds, and a warning says that Megatron's results are wrong
  kInPart = 6,         // every check that ran holds, and one that was asked for did not run
  kInterrupted = 130,  // an interrupt from the keyboard (SIGINT) came before the end, and nothing had failed
};

/// Returns the verdict that an exit code means: "verified", "falsified", "refused", ...
const char* verdict_name(ExitCode code);

// Returns standard output and standard error of this process, with colours and progress if they are
// terminals.

/// It must be called once, before anything is written.
Output terminal_output();

}  // namespace verify
