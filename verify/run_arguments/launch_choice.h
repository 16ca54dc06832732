#pragma once

/// The commands of a launch script that may start the training, which its reader adds as it comes to them,
/// and what the words of the one that counts say as the arguments of a run: the last one that says something
/// about the training, or else the last one. Of several, one of Python counts, and one whose file is named
/// for training.
///
/// Shapes  Words are expanded (shell_values.h).
/// Errors  run_without_arguments, arguments_apart (run_script.h); run_file_size: more than kMostRunArguments
///         expansions that are not known. Words that stop a launch, because no parser takes them for the
///         arguments that they are meant to be: arguments_in_one_word: a name and its value between the same
///         quotes; argument_without_dashes: the name of an argument after other signs than "--";
///         argument_before_script: an argument of Megatron among those of torchrun; launcher_behind_script:
///         nodes and processes of torchrun after the script.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "verify/run_arguments/launch_command.h"
#include "verify/run_arguments/launch_world.h"
#include "verify/run_arguments/run_arguments.h"
#include "verify/run_arguments/shell_values.h"

namespace verify {

class LaunchChoice {
 public:
  /// The values are those of the script, which go on changing while it is read.
  explicit LaunchChoice(ShellValues& values) : values_(values) {}

  /// Adds a command, if it may start a training or another script.
  void add(const ShellFields& words, int line);
  /// Adds words that are arguments alone. Those that follow each other are one launch.
  void add_arguments(const ShellFields& words, int line, bool is_in_document);
  /// Puts the words of a launcher before the commands from number `first` on, which that launcher starts.
  void add_launcher(std::size_t first, const ShellFields& words);
  /// Drops the commands from number `first` on.
  void cut(std::size_t first) { launches_.resize(first); }
  /// Remembers the words of a command that may be a training, but whose value nobody knows.
  void keep_what_is_not_known(const ShellFields& words);
  /// Remembers a word that is not known and may give variables other values, as in `export $(cat .env)`.
  void keep_assigning(const ShellField& word, int line);
  /// Remembers a sentence about how the file is read.
  void keep_sentence(const std::string& sentence);
  /// Remembers a file that is sourced, and is not there.
  void keep_sourced(const ShellField& file, int line);

  std::size_t size() const { return launches_.size(); }
  /// Returns the arguments of the command that counts. The script ends at an `exit` in a line; 0: at none.
  RunArguments arguments(LaunchWorld& world, int line_of_exit);

 private:
  /// A shell script that the file starts or sources, and that is not there.
  struct Started {
    std::string script;
    int line = 0;
    bool is_sourced = false;   // its variables are those of the file, too
    bool may_replace = false;  // variables of the file have values before it
  };

  void take_assigned_arguments();
  void take_variables(const LaunchCommand& launch, RunArguments& run) const;
  void keep_those_that(bool (*has_property)(const LaunchCommand&));
  void add_notes(const LaunchCommand& launch, bool has_command, RunArguments& run) const;
  void add_missing_files(RunArguments& run) const;
  void refuse_no_launch(int line_of_exit) const;
  void refuse_arguments_apart() const;

  ShellValues& values_;
  std::vector<LaunchCommand> launches_;
  bool starts_script_ = false;               // a command starts Python, with arguments or without
  std::vector<Unresolved> not_known_;        // what looks like a training, but is not known
  std::optional<LaunchCommand> overriding_;  // the last one that gives keys of a configuration
  std::vector<Started> started_;
  std::string other_work_;  // the last script that does another thing than training
  std::vector<std::string> sentences_;
};

/// Returns the value of a variable that a text hands to a program in another way than by an assignment: in
/// JSON ("NAME": "1"), or after an option of a launcher (-x NAME=1, --env NAME=1, --export=ALL,NAME=1).
std::optional<std::string> value_handed_on(std::string_view text, std::string_view name);

}  // namespace verify
