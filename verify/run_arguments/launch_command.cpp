#include "verify/run_arguments/launch_command.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <utility>

#include "verify/run_arguments/argument_table.h"
#include "verify/run_arguments/launch_words.h"

namespace verify {

namespace {

using Word = ShellFields::const_iterator;

const ArgumentRow* row_of(const ShellField& word) {
  return is_flag(word.text) ? find_argument(run_argument_name(word.text.substr(0, word.text.find('='))))
                            : nullptr;
}

/// Whether a word is an argument that says something about the training.
bool word_says_training(const ShellField& word) {
  const ArgumentRow* const row = row_of(word);
  return row != nullptr && row->use != ArgumentUse::without_effect;
}

bool is_value(const ShellFields& words, Word word) {
  return word != words.begin() && (word - 1)->text.starts_with('-') &&
         (word - 1)->text.find('=') == std::string::npos;
}

/// Returns the training script of a command whose name is not known: a word before the first argument, where
/// arguments follow that say something about the training. The value of an option is none.
Word unknown_training_script(const ShellFields& words) {
  for (auto word = words.begin(); word != words.end() && !word_says_training(*word); ++word) {
    const bool ends = word + 1 != words.end() && is_flag((word + 1)->text);
    const bool is_script = word->text.starts_with(kUnknownBegin) && ends && !is_value(words, word);
    if (is_script && std::any_of(word, words.end(), word_says_training)) return word;
  }
  return words.end();
}

/// Returns the program that gets the arguments of a command, which is none of Python.
Word other_program(const ShellFields& words) {
  const auto is_used = [](const ShellField& word) {
    const ArgumentRow* const row = row_of(word);
    return row != nullptr && row->use == ArgumentUse::used;
  };
  const auto first = std::ranges::find_if(words, is_used);
  if (first == words.end()) return first;
  for (auto word = words.begin(); word != first; ++word) {
    const std::string_view name = base_name(word->text);
    const bool is_other = word->text.starts_with('-') || is_value(words, word) || is_program(name, "shell") ||
                          is_program(name, "starter") || name.find('=') != std::string::npos;
    if (!is_other) return word;
  }
  return words.begin();
}

/// Whether a word may be the file of a shell's script. One after a shell may have any name.
bool is_script(const std::string& word, bool has_any_name) {
  return (has_any_name || word.ends_with(".sh")) && !word.empty() && word[0] != '-' && !has_blank(word);
}

/// Takes a word that holds many arguments apart, where a script stands between the launcher and Python and
/// hands the word on without quotes: ./entry.sh x.py "--num-layers 4 --hidden-size 8". The value of an
/// argument is no such word.
void take_arguments_apart(LaunchCommand& launch) {
  if (starts_python(launch) || launch.is_program) return;  // the program takes the word as it is
  ShellFields words;
  for (const ShellField& word : launch.arguments) {
    const bool is_value = !words.empty() && awaits_value(words.back());
    const bool holds_many = is_flag(word.text) && word.text.find(" --") != std::string::npos;
    if (!holds_many || is_value) {
      words.push_back(word);
      continue;
    }
    launch.in_one_word = word.line;
    append_words(word, words);
  }
  launch.arguments = std::move(words);
}

}  // namespace

bool starts_python(const LaunchCommand& launch) {
  return std::ranges::any_of(launch.before, [](const ShellField& word) {
    const std::string_view name = base_name(word.text);
    return name.starts_with("python") || is_program(name, "python");
  });
}

bool is_flag(std::string_view word) {
  return word.size() > 2 && word.starts_with("--") && std::isalpha(static_cast<unsigned char>(word[2])) != 0;
}

bool awaits_value(const ShellField& word) {
  return is_flag(word.text) && word.text.find('=') == std::string::npos && !has_blank(word.text);
}

bool has_blank(std::string_view word) { return word.find_first_of(kShellBlanks) != std::string_view::npos; }

bool is_of_swift(const LaunchCommand& launch) {
  return !launch.before.empty() && base_name(launch.before.back().text) == "megatron";
}

Word training_script(const ShellFields& words) {
  constexpr std::array<std::string_view, 3> kTasks = {"sft", "pt", "rlhf"};  // of ms-swift
  const auto swift =
      std::ranges::adjacent_find(words, [&](const ShellField& program, const ShellField& task) {
        return base_name(program.text) == "megatron" && std::ranges::find(kTasks, task.text) != kTasks.end();
      });
  if (swift != words.end()) return swift + 1;
  bool takes_module = false;  // -m may stand here
  bool is_module = false;
  for (auto word = words.begin(); word != words.end(); ++word) {
    const std::string_view name = base_name(word->text);
    const bool starts_others = launcher_of(name) == "torchrun";
    if (name.ends_with(".py") && !has_blank(word->text) && !is_flag(word->text)) return word;
    if (is_module && !starts_others) return word;
    is_module = takes_module && (name == "-m" || name == "--module");
    takes_module = (takes_module && !is_module) || starts_others || name.starts_with("python");
  }
  return words.end();
}

Word started_script(const ShellFields& words) {
  const std::string_view first = base_name(words.front().text);
  const bool is_starter = is_program(first, "shell") || is_program(first, "starter") || first == "sbatch";
  if (is_script(words.front().text, false)) return words.begin();
  if (!is_starter) return words.end();
  bool is_behind_shell = first == "bash" || first == "sh";
  for (auto word = words.begin() + 1; word != words.end(); ++word) {
    const bool is_of_sbatch = first == "sbatch" && !is_value(words, word);
    if (is_script(word->text, is_of_sbatch || (is_behind_shell && !word->has_unknown()))) return word;
    is_behind_shell = is_behind_shell || base_name(word->text) == "bash" || base_name(word->text) == "sh";
  }
  return words.end();
}

std::optional<LaunchCommand> launch_of(const ShellFields& words, const ShellValues& values) {
  auto script = training_script(words);
  bool is_program = false;
  if (script == words.end() && started_script(words) == words.end()) script = unknown_training_script(words);
  if (script == words.end()) {
    script = other_program(words);
    is_program = script != words.end();
  }
  if (script == words.end()) return std::nullopt;
  LaunchCommand launch{.before = {words.begin(), script},
                       .arguments = {script + 1, words.end()},
                       .script = values.shown(script->text),
                       .is_program = is_program};
  take_arguments_apart(launch);
  return launch;
}

bool says_training(const LaunchCommand& launch) {
  return std::ranges::any_of(launch.arguments, word_says_training);
}

bool is_named_training(const LaunchCommand& launch) {
  const std::string_view name = base_name(launch.script);
  for (std::size_t at = name.find("train"); at != std::string::npos; at = name.find("train", at + 1)) {
    const bool begins_a_word = at == 0 || std::isalpha(static_cast<unsigned char>(name[at - 1])) == 0;
    if (begins_a_word || name.substr(0, at).ends_with("pre")) return true;
  }
  return false;
}

bool is_no_training(const LaunchCommand& launch) {
  const std::string_view name = base_name(launch.script);
  const std::string_view folder =
      std::string_view(launch.script).substr(0, launch.script.size() - name.size());
  const bool has_other_name = std::ranges::any_of(launch_words(), [&](const LaunchWord& row) {
    return row.kind == "part" && name.find(row.word) != std::string_view::npos;
  });
  return !is_named_training(launch) &&
         (has_other_name || folder.ends_with("checkpoint/") || is_program(name, "other-work"));
}

bool looks_like_a_launch(std::string_view text) {
  return text.find(" --") != std::string_view::npos &&
         (text.find(".py") != std::string_view::npos || text.find(" -m ") != std::string_view::npos);
}

}  // namespace verify
