#pragma once

/// The words after "shardproof": a command, scenario files and options, as "--option value" or
/// "--option=value". "--flag=false" turns off a flag that a scenario sets. Some options have a short name,
/// too (short_names.tsv): "--tp 8". "--dp 4" in place of --world-size is the world with 4 replicas of the
/// sizes that the command line gives, but for `shards`, which reads it.
/// The words behind "--" are the command line of a run: "-- torchrun pretrain_gpt.py --num-layers 32" is
/// "--command 'torchrun pretrain_gpt.py --num-layers 32'". Behind "inspect --" they are its dumps, if they
/// are files and none stands before. Behind "run --" and "exam --" they are a program that is run.
///
/// Errors  missing_value: an option without the value it needs; those of option_source.h.

#include <string>
#include <vector>

#include "verify/run_arguments/run_arguments.h"
#include "verify/vocabulary/settings.h"

namespace verify {

struct CommandLine {
  std::string command;  // empty: none was given
  std::vector<std::string> scenarios;
  Settings settings;
  std::vector<std::string> program;  // of the commands run and exam
  RunArguments run;  // what --from and --command give (requested_run.h); of no run without them
  bool help = false;
  bool version = false;
};

CommandLine parse_command_line(const std::vector<std::string>& arguments);

}  // namespace verify
