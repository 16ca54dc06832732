#include "verify/run_arguments/launch_command.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <utility>

#include "verify/run_arguments/argument_table.h"
#include "verify/run_arguments/launch_world.h"

namespace verify {

namespace {

using Fields = std::vector<ShellField>;

constexpr std::string_view kBetweenWords = " \t\n";

/// Whether a word is an argument that says something about the training.
bool word_says_training(const ShellField& word) {
  if (!is_flag(word.text)) return false;
  const ArgumentRow* row = find_argument(run_argument_name(word.text.substr(0, word.text.find('='))));
  return row != nullptr && row->use != ArgumentUse::without_effect;
}

}  // namespace

bool starts_python(const LaunchCommand& launch) {
  return std::ranges::any_of(launch.before, [](const ShellField& word) {
    const std::string_view name = base_name(word.text);
    return name.starts_with("python") || name == "torchrun" || name == "deepspeed" || name == "accelerate";
  });
}

bool is_flag(std::string_view word) {
  return word.size() > 2 && word.starts_with("--") && std::isalpha(static_cast<unsigned char>(word[2])) != 0;
}

bool awaits_value(const ShellField& word) {
  return is_flag(word.text) && word.text.find('=') == std::string::npos;
}

bool has_blank(std::string_view word) { return word.find_first_of(kBetweenWords) != std::string_view::npos; }

void append_words(const ShellField& field, std::vector<ShellField>& words) {
  for (std::size_t at = 0; (at = field.text.find_first_not_of(kBetweenWords, at)) != std::string::npos;) {
    const std::size_t end = std::min(field.text.find_first_of(kBetweenWords, at), field.text.size());
    words.push_back({field.text.substr(at, end - at), field.line});
    at = end;
  }
}

bool is_shell(std::string_view word) {
  const std::string_view name = base_name(word);
  return name == "bash" || name == "sh" || name == "ssh" || name == "pdsh";
}

bool only_starts(std::string_view word) { return word == "sbatch" || word == "source" || word == "."; }

bool is_of_swift(const LaunchCommand& launch) {
  return !launch.before.empty() && base_name(launch.before.back().text) == "megatron";
}

Fields::const_iterator training_script(const Fields& words) {
  for (auto word = words.begin(); word != words.end() && word + 1 != words.end(); ++word) {
    const std::string& task = (word + 1)->text;
    const bool trains = task == "sft" || task == "pt" || task == "rlhf";
    if (trains && base_name(word->text) == "megatron") return word + 1;
  }
  bool takes_module = false;  // -m may stand here
  bool is_module = false;
  for (auto word = words.begin(); word != words.end(); ++word) {
    const std::string_view name = base_name(word->text);
    const bool starts_others = name == "torchrun" || name.starts_with("torch.distributed");
    if (name.ends_with(".py") && !has_blank(word->text) && !is_flag(word->text)) return word;
    if (is_module && !starts_others) return word;
    is_module = takes_module && (name == "-m" || name == "--module");
    takes_module = (takes_module && !is_module) || starts_others || name.starts_with("python");
  }
  return words.end();
}

Fields::const_iterator unknown_training_script(const Fields& words) {
  for (auto word = words.begin(); word != words.end(); ++word) {
    const bool is_value = word != words.begin() && awaits_value(*(word - 1));
    const bool ends = word + 1 != words.end() && is_flag((word + 1)->text);
    const bool is_script = word->text.starts_with(kUnknownBegin) && ends && !is_value;
    if (is_script && std::any_of(word, words.end(), word_says_training)) return word;
  }
  return words.end();
}

void take_arguments_apart(LaunchCommand& launch) {
  if (starts_python(launch)) return;  // Python takes the word as it is
  std::vector<ShellField> words;
  for (const ShellField& word : launch.arguments) {
    const bool is_value = !words.empty() && awaits_value(words.back()) && !has_blank(words.back().text);
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

bool looks_like_a_launch(std::string_view text) {
  return text.find(" --") != std::string_view::npos &&
         (text.find(".py") != std::string_view::npos || text.find(" -m ") != std::string_view::npos);
}

}  // namespace verify
