#include "verify/run_arguments/shell_output.h"

#include <cstddef>
#include <vector>

#include "sim/base/error.h"
#include "verify/run_arguments/shell_branches.h"
#include "verify/run_arguments/shell_condition.h"
#include "verify/run_arguments/shell_values.h"
#include "verify/run_arguments/shell_words.h"

namespace verify {

namespace {

/// Returns the commands of a substitution; "" where they are of a form that is not followed: a backslash
/// means another thing in backquotes, and redirections and jobs move the output.
std::string_view commands_of(std::string_view source) {
  const bool is_quoted = source.starts_with('`') && source.size() >= 2;
  if (is_quoted && source.find('\\') != std::string_view::npos) return "";
  if (!is_quoted && (!source.starts_with("$(") || source.size() < 3)) return "";
  if (source.find(":=") != std::string_view::npos) return "";  // it assigns
  source.remove_prefix(is_quoted ? 1 : 2);
  source.remove_suffix(1);
  for (std::size_t at = 0; at < source.size(); ++at) {
    if (source[at] == '>' || source[at] == '<') return "";
    if (source[at] != '&') continue;
    if (at + 1 == source.size() || source[at + 1] != '&') return "";
    ++at;
  }
  return source;
}

bool is_followed(const ShellCommand& command) {
  using enum ShellKeyword;
  switch (command.keyword) {
    case none:
      return command.assignments.empty() && command.documents.empty() && command.chain != "|";
    case if_begins:
    case condition_ends:
    case elif_begins:
    case else_begins:
    case if_ends:
    case case_begins:
    case pattern_begins:
    case case_ends:
    case group_begins:
    case group_ends:
      return true;
    default:
      return false;
  }
}

/// Returns what `echo` prints of its words; nothing where an option changes it.
std::optional<std::string> echoed(const std::vector<ShellField>& words) {
  std::size_t first = 1;
  const bool has_option =
      words.size() > 1 && words[1].text.starts_with('-') && !words[1].text.starts_with("--");
  if (has_option && words[1].text != "-n") return std::nullopt;
  if (has_option) ++first;
  std::string text;
  for (std::size_t i = first; i < words.size(); ++i) text += (i > first ? " " : "") + words[i].text;
  return text + (has_option ? "" : "\n");
}

class OutputReader {
 public:
  explicit OutputReader(ShellValues& values) : values_(values) {}

  ShellOutput read(const ShellScript& script) {
    for (const ShellCommand& command : script.commands) {
      if (!is_followed(command) || !follow(command)) return {std::nullopt, asked_};
    }
    text_.erase(text_.find_last_not_of('\n') + 1);
    return {std::move(text_), ""};
  }

 private:
  /// Returns whether it is known what the command prints.
  bool follow(const ShellCommand& command) {
    if (command.keyword != ShellKeyword::none) {
      branches_.follow(command, values_);
      return true;
    }
    const ShellRuns runs = branches_.runs(command);
    if (runs == ShellRuns::no) return true;
    if (runs == ShellRuns::maybe) return false;
    const std::vector<ShellField> words = values_.expand(command.words);
    if (!words.empty() && words.front().text == "echo" && !command.is_negated) return print(words);
    const std::optional<bool> success = shell_condition(command, values_);
    const std::vector<std::string> unknown = values_.unknown_variables(words);
    if (asked_.empty() && !unknown.empty()) asked_ = unknown.front();
    branches_.ended(success);
    return success.has_value();
  }

  bool print(const std::vector<ShellField>& words) {
    const std::optional<std::string> text = echoed(words);
    if (!text) return false;
    text_ += *text;
    branches_.ended(true);
    return true;
  }

  ShellValues& values_;
  ShellBranches branches_;
  std::string text_;
  std::string asked_;
};

}  // namespace

ShellOutput shell_output(std::string_view source, int line, ShellValues& values) {
  const std::string_view commands = commands_of(source);
  if (commands.find("echo") == std::string_view::npos) return {};
  try {
    return OutputReader(values).read(parse_shell(commands, line));
  } catch (const sim::Error& error) {
    if (error.refusal().code != "script_syntax") throw;
    return {};
  }
}

}  // namespace verify
