#pragma once

/// A command of a launch script that starts a training script, and how it is told from other commands:
///
///   const auto script = training_script(words);  // python -m torch.distributed.run pretrain_gpt.py
///   LaunchCommand launch{.before = {words.begin(), script}, .arguments = {script + 1, words.end()}};
///   says_training(launch);
///
/// Shapes  The words are expanded (shell_values.h); what is not known stands in them as a mark.

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "verify/run_arguments/shell_values.h"

namespace verify {

struct LaunchCommand {
  std::vector<ShellField> before;     // the words before the script
  std::vector<ShellField> arguments;  // those behind it
  std::string script;                 // the Python file; "" where the text is arguments alone
  int line = 0;
  int in_one_word = 0;    // the line of a word that holds many arguments; 0: there is none
  bool is_apart = false;  // arguments alone, which begin a command of their own outside of here-documents
  std::map<std::string, std::string> environment;  // what stands before the command
};

/// Whether a word is the name of an argument: "--seq-length", "--seq-length=4".
bool is_flag(std::string_view word);

/// Whether a word is the name of an argument alone, so that the next word may be its value.
bool awaits_value(const ShellField& word);

/// Whether the words before the training script start Python themselves.
bool starts_python(const LaunchCommand& launch);

/// Whether a word has blanks, as the text of a command has that is one word.
bool has_blank(std::string_view word);

/// Appends the words of a field, between which there are blanks.
void append_words(const ShellField& field, std::vector<ShellField>& words);

/// Whether a program takes a command as one word.
bool is_shell(std::string_view word);

/// Whether a program or a command of the shell runs a script, and takes no command as a word.
bool only_starts(std::string_view word);

/// Whether a command is one of ms-swift: `megatron sft --model Qwen/Qwen3-8B`.
bool is_of_swift(const LaunchCommand& launch);

/// Returns the training script of a command: a Python file, a module behind -m of Python or torchrun, or the
/// task of ms-swift; the end where there is none.
std::vector<ShellField>::const_iterator training_script(const std::vector<ShellField>& words);

/// Returns the training script of a command whose name is not known, as in `$LAUNCH $SCRIPT --num-layers 4`:
/// the last word that is not known before the first argument, where arguments follow that say something about
/// the training. The value of an option is none.
std::vector<ShellField>::const_iterator unknown_training_script(const std::vector<ShellField>& words);

/// Takes a word that holds many arguments apart, where a script stands between the launcher and Python and
/// hands the word on without quotes: ./entry.sh x.py "--num-layers 4 --hidden-size 8". The value of an
/// argument is no such word.
void take_arguments_apart(LaunchCommand& launch);

/// Whether an argument says something about the training.
bool says_training(const LaunchCommand& launch);

/// Whether the name of the script says that it trains: pretrain_gpt.py, my.train.
bool is_named_training(const LaunchCommand& launch);

/// Whether a text that is not known looks like the command of a training: "run=srun python x.py --a".
bool looks_like_a_launch(std::string_view text);

}  // namespace verify
