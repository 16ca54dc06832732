#pragma once

/// The commands of a launch script that may start the training, which its reader adds as it comes to them,
/// and the arguments of the one that counts: the last one that says something about the training, or else
/// the last one. Of several, one of Python counts, and one whose file is named for training.
///
/// Shapes  Words are expanded (shell_values.h). `given` are the variables that are assigned before a command.
/// Errors  run_without_arguments, arguments_apart (run_script.h); those of launch_mistakes.h.

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "verify/run_arguments/launch_command.h"
#include "verify/run_arguments/launch_world.h"
#include "verify/run_arguments/run_arguments.h"
#include "verify/run_arguments/shell_values.h"

namespace verify {

/// What ends a script before its last line.
struct ScriptEnd {
  int line = 0;             // 0: nothing does
  bool has_failed = false;  // a command that fails under `set -e`, and no `exit`
};

class ScriptLaunches {
 public:
  /// The values are those of the script, which go on changing while it is read.
  explicit ScriptLaunches(ShellValues& values) : values_(&values) {}

  /// Adds a command, if it may start a training or another script.
  void add(const ShellFields& words, int line, const std::vector<std::string>& given);
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
  /// Returns the arguments of the command that counts. `ended` is what ended the script.
  RunArguments arguments(LaunchWorld& world, const ScriptEnd& ended);

 private:
  /// A shell script that the file starts or sources, and that is not there.
  struct Started {
    std::string script;
    std::string options;  // " --set TP=2": what the file gives it
    int line = 0;
    bool is_sourced = false;   // its variables are those of the file, too
    bool may_replace = false;  // variables of the file have values before it
  };

  void keep_started(const ShellFields& words, int line, const std::vector<std::string>& given);
  static std::vector<std::pair<std::string, const ShellValue*>> assigned(const ShellVariables& variables);
  void take_assigned_arguments();
  void read_world_of_swift(const LaunchCommand& launch, LaunchWorld& world) const;
  void take_variables(const LaunchCommand& launch, RunArguments& run) const;
  void keep_those_that(bool (*has_property)(const LaunchCommand&));
  void add_notes(const LaunchCommand& launch, bool has_command, RunArguments& run) const;
  void add_missing_files(RunArguments& run) const;
  void refuse_no_launch(const ScriptEnd& ended) const;
  void refuse_arguments_apart() const;
  void refuse_what_is_not_known() const;

  ShellValues* values_;
  std::vector<LaunchCommand> launches_;
  bool starts_script_ = false;               // a command starts Python, with arguments or without
  ShellFields not_known_;                    // words that look like a training, but are not known
  std::optional<LaunchCommand> overriding_;  // the last one that gives keys of a configuration
  std::vector<Started> started_;
  std::string other_work_;  // the last script that does another thing than training
  std::vector<std::string> sentences_;
};

}  // namespace verify
