#pragma once

/// The run that --from or --command gives, as a document, and the file that --from-as asks for. They are the
/// options about files: what works with a run knows its document alone.
///
///   --from FILE --set NAME=VALUE --from-as run FILE
///
/// Errors  those of run_file.h, about the option that the user gave; two_runs: both --from and --command;
///         bad_set: --set without a name and a value; option_without_effect: --set or --from-as without a
///         run; from_as_form: --from-as with another word than scenario or run.

#include <optional>
#include <string>

#include "verify/megatron_rules/run_of_file.h"
#include "verify/run_arguments/run_arguments.h"
#include "verify/vocabulary/settings.h"

namespace verify {

/// Reads the run; the document of no run where neither option is given.
RunArguments requested_run(const Settings& command_line);

/// Returns the option that gives the run, as refusals name it: "--from train.sh".
std::string option_of_run(const Settings& settings);

/// The file of --from-as.
struct RunAs {
  bool is_scenario = false;  // the options of the run; else its document
  std::string path;
};
std::optional<RunAs> requested_form(const Settings& command_line);

/// Returns the text of that file.
std::string text_of(const RunAs& form, const RunOfFile& run);

}  // namespace verify
