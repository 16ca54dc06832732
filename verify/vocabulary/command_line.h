#pragma once

/// The words after "shardproof": a command, scenario files and options, as "--option value" or
/// "--option=value". "--flag=false" turns off a flag that a scenario sets. Some options have a short name,
/// too (short_names.tsv): "--tp 8". "--dp 4" in place of --world-size is the world with 4 replicas of the
/// sizes that the command line gives, but for `shards`, which reads it.
/// The words after "--" are the command line of a run: "-- torchrun pretrain_gpt.py --num-layers 32" is
/// "--command 'torchrun pretrain_gpt.py --num-layers 32'". Behind "inspect --" they are its dumps, if they
/// are files and none stands before. Behind "run --" and "exam --" they are a program that is run.
///
/// Scenario files share Boost's description of the vocabulary, and the collection of values into Settings.
///
/// Errors  missing_value: an option without the value it needs, or followed by another option in place of it;
///         unknown_option: a name that is not in the vocabulary; given_twice: an option that may not be
///         repeated, given again.

#include <string>
#include <vector>

#include "verify/run_arguments/run_arguments.h"
#include "verify/vocabulary/settings.h"

namespace boost::program_options {
class options_description;
}

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

boost::program_options::options_description describe_options();

/// `where` is appended to "there is no such option" in the message: "" or " in FILE". `help` is the call
/// that explains the options.
[[noreturn]] void refuse_unknown_option(const std::string& option, const std::string& where,
                                        const std::string& help);

/// Adds the values of an option to those of its source, which `where` names in refusals, for example " on the
/// command line". Only options of the kinds `texts` and `words` may be repeated.
void add_given(const std::string& name, const std::vector<std::string>& values, const std::string& where,
               Settings& settings);

}  // namespace verify
