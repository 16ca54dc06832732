#include "verify/run_arguments/shell_mistakes.h"

#include <algorithm>
#include <fmt/format.h>
#include <string_view>

#include "sim/base/printable_text.h"
#include "verify/run_arguments/argument_table.h"
#include "verify/run_arguments/launch_command.h"
#include "verify/run_arguments/run_arguments.h"
#include "verify/run_arguments/shell_word_reader.h"

namespace verify {

namespace {

using Words = std::vector<ShellField>;

constexpr std::string_view kNoBlank = "an assignment has no blank beside its '='";

std::string shown_shortly(std::string_view text) {
  constexpr std::size_t kMostShown = 80;
  return sim::printable_text(std::string(text.substr(0, kMostShown)));
}

bool is_name(std::string_view text) {
  return !text.empty() && begins_shell_name(text.front()) && std::ranges::all_of(text, is_of_shell_name);
}

bool is_bare(const ShellPart& part) { return part.kind == ShellPart::Kind::literal && !part.is_quoted; }

bool begins_test(const ShellCommand& command) {
  return !command.words.empty() && (is_literal(command.words[0], "[") || is_literal(command.words[0], "[["));
}

/// TP = 4
std::string spaced_assignment(const ShellCommand&, const Words& words) {
  const bool has_sign = words.size() > 1 && (words[1].text == "=" || words[1].text.starts_with("=$"));
  if (!has_sign || !is_name(words[0].text)) return "";
  return fmt::format("runs a command {}, and assigns nothing: {}", shown_shortly(words[0].text), kNoBlank);
}

/// TP= 4
std::string value_behind_blank(const ShellCommand& command, const Words& words) {
  if (command.assignments.empty() || words.size() != 1 || !whole_number(words[0].text)) return "";
  const ShellAssignment& last = command.assignments.back();
  const bool is_empty = last.values.size() == 1 && last.values[0].parts.empty() && !last.is_array;
  if (!is_empty) return "";
  return fmt::format("runs a command {}, and assigns {} nothing: {}", shown_shortly(words[0].text), last.name,
                     kNoBlank);
}

/// export TP= 4, export TP =4
std::string declared_behind_blank(const ShellCommand& command, const Words&) {
  for (const ShellWord& word : command.declared) {
    if (!std::ranges::all_of(word.parts, is_bare) || word.parts.size() != 1) continue;
    const std::string& text = word.parts[0].text;
    const bool is_odd = text.starts_with('=') || whole_number(text);
    if (is_odd)
      return fmt::format("declares '{}', which is no name, and assigns it to nothing: {}",
                         shown_shortly(text), kNoBlank);
  }
  return "";
}

/// $TP=4
std::string assignment_to_value(const ShellCommand& command, const Words&) {
  if (command.words.size() != 1 || command.words[0].parts.size() < 2) return "";
  const ShellPart& first = command.words[0].parts[0];
  const ShellPart& second = command.words[0].parts[1];
  const bool is_odd = first.kind == ShellPart::Kind::variable && !first.is_quoted && is_bare(second) &&
                      second.text.starts_with('=') && !second.text.starts_with("==");
  if (!is_odd) return "";
  return fmt::format("assigns {} nothing: no '$' stands before the name in an assignment",
                     shown_shortly(first.text));
}

/// [4 -gt 1 ]
std::string joined_bracket(const ShellCommand&, const Words& words) {
  const std::string& name = words.empty() ? std::string() : words[0].text;
  const bool is_odd =
      name.size() > 1 && name.front() == '[' && name != "[[" && words.back().text.ends_with(']');
  if (!is_odd || words[0].has_unknown()) return "";
  return fmt::format("runs a command '{}', and tests nothing: a blank stands behind the '[' of a test",
                     shown_shortly(name));
}

/// [ "$SIZE"="7b" ]
std::string joined_comparison(const ShellCommand& command, const Words&) {
  if (!begins_test(command) || command.words.size() != 3) return "";
  const auto has_sign = [](const ShellPart& part) {
    return is_bare(part) && part.text.find('=') != std::string::npos && !part.text.starts_with('-');
  };
  if (!std::ranges::any_of(command.words[1].parts, has_sign)) return "";
  return "tests one word, which is never empty, and so succeeds: blanks stand on both sides of the '=' of a "
         "comparison";
}

/// [ $TP > 1 ]
std::string redirected_comparison(const ShellCommand& command, const Words&) {
  if (!command.redirects_inside_test) return "";
  return "compares nothing: '>' and '<' inside of [ ] are redirections to and from files; -gt and -lt "
         "compare "
         "numbers";
}

/// --pipeline-model-parallel-layout Ett|ttL --num-layers 4
std::string arguments_behind_pipe(const ShellCommand& command, const Words& words) {
  if (command.chain != "|" || words.empty() || training_script(words) != words.end()) return "";
  const auto is_argument = [](const ShellField& word) {
    const ArgumentRow* row = is_flag(word.text)
                                 ? find_argument(run_argument_name(word.text.substr(0, word.text.find('='))))
                                 : nullptr;
    return row != nullptr && row->use == ArgumentUse::used;
  };
  const auto found = std::ranges::find_if(words, is_argument);
  if (found == words.end()) return "";
  return fmt::format("gives {} to a command '{}' behind a '|': a value that has this sign stands in quotes",
                     shown_shortly(found->text), shown_shortly(words.front().text));
}

using MistakeRule = std::string (*)(const ShellCommand&, const Words&);
constexpr MistakeRule kMistakes[] = {spaced_assignment,     value_behind_blank,   declared_behind_blank,
                                     assignment_to_value,   joined_bracket,       joined_comparison,
                                     redirected_comparison, arguments_behind_pipe};

}  // namespace

std::string mistake_in(const ShellCommand& command, const std::vector<ShellField>& words) {
  for (const MistakeRule rule : kMistakes) {
    const std::string sentence = rule(command, words);
    if (!sentence.empty()) return fmt::format("line {} {}", command.line, sentence);
  }
  return "";
}

}  // namespace verify
