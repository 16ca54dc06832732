#pragma once

/// A command of a launch script that starts a training script, and how it differs from other commands:
///
///   if (const auto launch = launch_of(words)) says_training(*launch);
///
/// Shapes  The words are expanded (shell_values.h); what is not known stands in them as a mark.

#include <optional>
#include <string>
#include <string_view>

#include "verify/run_arguments/shell_values.h"

namespace verify {

struct LaunchCommand {
  ShellFields before;     // the words before the script
  ShellFields arguments;  // those after it
  std::string script;     // the Python file, or another program; "" where the text is arguments alone
  int line = 0;
  bool is_program = false;  // the script is none of Python: it may change the arguments
  int in_one_word = 0;      // the line of a word that holds many arguments; 0: there is none
  bool is_apart = false;    // arguments alone, which begin a command of their own outside of here-documents
  std::shared_ptr<const ShellVariables> variables;  // where the command runs
};

/// Whether a word is the name of an argument: "--seq-length", "--seq-length=4".
bool is_flag(std::string_view word);

/// Whether a word is the name of an argument alone, so that the next word may be its value.
bool awaits_value(const ShellField& word);

/// Whether the words before the training script start Python themselves.
bool starts_python(const LaunchCommand& launch);

/// Whether a word has blanks, as the text of a command has that is one word.
bool has_blank(std::string_view word);

/// Whether a command is one of ms-swift: `megatron sft --model Qwen/Qwen3-8B`.
bool is_of_swift(const LaunchCommand& launch);

/// Returns the training script of a command: a Python file, a module after -m of Python or torchrun, or the
/// task of ms-swift; the end where there is none.
ShellFields::const_iterator training_script(const ShellFields& words);

/// Returns the shell script that a command starts: `srun ./run.sh`, `bash -x run.sh`; the end where it starts
/// none.
ShellFields::const_iterator started_script(const ShellFields& words);

/// Returns the launch of a command. A program that is none of Python counts where its arguments say something
/// about the training: it may hand them on. A word that is not known may be the script, as in `$LAUNCH
/// $SCRIPT --num-layers 4`.
std::optional<LaunchCommand> launch_of(const ShellFields& words, const ShellValues& values);

/// Whether an argument says something about the training.
bool says_training(const LaunchCommand& launch);

/// Whether the name of the script says that it trains: pretrain_gpt.py, my.train.
bool is_named_training(const LaunchCommand& launch);

/// Whether the name says that the script does another thing: it converts a checkpoint, serves, installs.
bool is_no_training(const LaunchCommand& launch);

/// Whether a text that is not known looks like the command of a training: "run=srun python x.py --a".
bool looks_like_a_launch(std::string_view text);

}  // namespace verify
