#include "verify/run_arguments/shell_output.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fmt/format.h>
#include <span>
#include <utility>
#include <vector>

#include "sim/base/error.h"
#include "verify/run_arguments/run_arguments.h"
#include "verify/run_arguments/shell_arithmetic.h"
#include "verify/run_arguments/shell_branches.h"
#include "verify/run_arguments/shell_condition.h"
#include "verify/run_arguments/shell_filters.h"
#include "verify/run_arguments/shell_printf.h"
#include "verify/run_arguments/shell_values.h"
#include "verify/run_arguments/shell_words.h"

namespace verify {

namespace {

constexpr std::size_t kMostPrintedBytes = std::size_t{1} << 20U;
constexpr int kMostCalls = 8;
constexpr int kMostCommands = 10'000;
constexpr std::int64_t kMostCounted = 10'000;

/// Whether a backslash stands before a sign with which it means another thing in backquotes.
bool has_special_backslash(std::string_view text) {
  for (std::size_t at = text.find('\\'); at != std::string_view::npos; at = text.find('\\', at + 1))
    if (at + 1 == text.size() || std::string_view("$`\\\n").find(text[at + 1]) != std::string_view::npos)
      return true;
  return false;
}

/// Whether an '&' outside of quotes ends a command.
bool starts_jobs(std::string_view commands) {
  char quote = '\0';
  for (std::size_t at = 0; at < commands.size(); ++at) {
    const char c = commands[at];
    const bool is_escape = c == '\\' && quote != '\'';
    const bool is_quote = c == '"' || c == '\'';
    if (is_escape) {
      ++at;
    } else if (is_quote && (quote == '\0' || quote == c)) {
      quote = quote == '\0' ? c : '\0';
    } else if (c == '&' && quote == '\0' && (at == 0 || commands[at - 1] != '>')) {
      if (at + 1 == commands.size() || commands[at + 1] != '&') return true;
      ++at;
    }
  }
  return false;
}

/// Returns the commands of a substitution; "" where they are of a form that is not followed: a backslash
/// means another thing in backquotes, and jobs go on beside the shell.
std::string_view commands_of(std::string_view source) {
  const bool is_quoted = source.starts_with('`') && source.size() >= 2;
  if (is_quoted && has_special_backslash(source)) return "";
  if (!is_quoted && (!source.starts_with("$(") || source.size() < 3)) return "";
  if (source.find(":=") != std::string_view::npos) return "";  // it assigns
  source.remove_prefix(is_quoted ? 1 : 2);
  source.remove_suffix(1);
  return starts_jobs(source) ? "" : source;
}

bool is_followed(const ShellCommand& command) {
  using enum ShellKeyword;
  switch (command.keyword) {
    case none:
      return !command.is_redirected;
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
      return !command.is_redirected;
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

/// Returns what `expr` prints of two numbers and a sign.
std::optional<std::string> calculated(const std::vector<ShellField>& words) {
  if (words.size() != 4) return std::nullopt;
  const bool is_sign =
      words[2].text.size() == 1 && std::string_view("+-*/%").find(words[2].text) != std::string_view::npos;
  if (!is_sign || !whole_number(words[1].text) || !whole_number(words[3].text)) return std::nullopt;
  const auto none = [](const std::string&) { return std::optional<std::string>(); };
  const auto number =
      shell_arithmetic(fmt::format("{} {} ({})", words[1].text, words[2].text, words[3].text), none);
  return number ? std::optional(fmt::format("{}\n", *number)) : std::nullopt;
}

/// Returns what `seq` prints of one to three whole numbers.
std::optional<std::string> counted(const std::vector<ShellField>& words) {
  std::vector<std::int64_t> numbers;
  for (auto word = words.begin() + 1; word != words.end(); ++word) {
    const auto number = whole_number(word->text);
    if (!number || std::abs(*number) > kMostCounted || std::to_string(*number) != word->text)
      return std::nullopt;
    numbers.push_back(*number);
  }
  if (numbers.empty() || numbers.size() > 3) return std::nullopt;
  const std::int64_t first = numbers.size() > 1 ? numbers.front() : 1;
  const std::int64_t step = numbers.size() > 2 ? numbers[1] : 1;
  if (step == 0) return std::nullopt;
  std::string text;
  for (std::int64_t i = first; step > 0 ? i <= numbers.back() : i >= numbers.back(); i += step)
    text += fmt::format("{}\n", i);
  return text;
}

class OutputReader {
 public:
  OutputReader(ShellValues& values, int line) : values_(values), line_(line) {}

  ShellOutput output(std::span<const ShellCommand> commands) {
    const bool is_known = read(commands);
    subshell_.reset();
    if (!is_known) return {std::nullopt, asked_};
    const std::size_t end = text_.find_last_not_of('\n') + 1;
    std::string line_breaks = text_.substr(end);
    text_.erase(end);
    return {std::move(text_), "", std::move(line_breaks)};
  }

 private:
  bool read(std::span<const ShellCommand> commands) {
    for (std::size_t i = 0; i < commands.size() && !has_returned_;) {
      std::size_t end = i + 1;
      while (end < commands.size() && commands[end].chain == "|") ++end;
      const auto pipeline = commands.subspan(i, end - i);
      if (!std::ranges::all_of(pipeline, is_followed)) return false;
      if (!(pipeline.size() == 1 ? follow(pipeline.front()) : follow_pipeline(pipeline))) return false;
      i = end;
    }
    return true;
  }

  /// Follows a command whose output others take apart.
  bool follow_pipeline(std::span<const ShellCommand> commands) {
    using enum ShellKeyword;
    const bool are_plain = std::ranges::all_of(commands, [](const ShellCommand& command) {
      return command.keyword == none && command.assignments.empty() && command.declared.empty();
    });
    if (!are_plain) return false;
    const ShellRuns runs = branches_.runs(commands.front());
    if (runs != ShellRuns::yes) return runs == ShellRuns::no;
    const std::string before = std::exchange(text_, "");
    if (!follow_first(commands.front())) return false;
    for (const ShellCommand& command : commands.subspan(1)) {
      const bool has_input = command.input != nullptr || !command.documents.empty();
      const std::vector<ShellField> words = values_.expand(command.words);
      values_.charge(text_.size(), line_);
      const std::optional<std::string> text = has_input ? std::nullopt : filtered(words, text_);
      if (!text) {
        ask(text_);
        ask(words);
        return false;
      }
      text_ = *text;
    }
    text_ = before + text_;
    branches_.ended(true);
    return text_.size() <= kMostPrintedBytes;
  }

  /// Follows the first command of a pipeline. A shell of its own runs it, so that what a function assigns is
  /// gone behind it.
  bool follow_first(const ShellCommand& command) {
    const std::vector<ShellField> words = values_.expand(command.words);
    if (words.empty() || values_.function(words.front().text) == nullptr) return follow(command);
    const ShellValues::Subshell subshell(values_, line_);
    return follow(command);
  }

  /// Remembers the first variable that would tell what is not known in words or in a text.
  void ask(const std::vector<ShellField>& words) {
    const std::vector<std::string> unknown = values_.unknown_variables(words);
    if (asked_.empty() && !unknown.empty()) asked_ = unknown.front();
  }
  void ask(const std::string& text) { ask(std::vector<ShellField>{{text, line_}}); }

  /// Returns the text of a here-string or here-document; nothing where a command has none, or several.
  std::optional<std::string> input_of(const ShellCommand& command) {
    const bool has_document = command.documents.size() == 1;
    if (command.input != nullptr && command.documents.empty())
      return values_.whole(*command.input).text + "\n";
    if (command.input == nullptr && has_document) return values_.text_of(command.documents.front());
    return std::nullopt;
  }

  /// Returns whether it is known what the command prints.
  bool follow(const ShellCommand& command) {
    if (command.keyword != ShellKeyword::none) {
      branches_.follow(command, values_);
      return true;
    }
    const ShellRuns runs = branches_.runs(command);
    if (runs == ShellRuns::no) return true;
    if (runs == ShellRuns::maybe || ++commands_ > kMostCommands) return false;
    if (!command.declared.empty()) return false;
    if (!command.assignments.empty()) return assign(command);
    const std::vector<ShellField> words = values_.expand(command.words);
    const std::string name = words.empty() ? "" : words.front().text;
    if (const ShellValues::Commands body = values_.function(name)) return call(*body, words);
    if (words.empty() && !command.words.empty()) return end(!command.is_negated);  // $E, which is empty
    const bool has_input = !command.documents.empty() || command.input != nullptr;
    if (has_input) return !command.is_negated && print_input(command, words);
    if (name == "return" && depth_ > 0) return has_returned_ = true;
    if (name == "shift" && depth_ > 0 && words.size() == 1) return shift();
    if (!command.is_negated && name == "echo") return print(echoed(words));
    if (!command.is_negated && name == "printf") return print(printed_text(words));
    if (!command.is_negated && name == "expr") return print(calculated(words));
    if (!command.is_negated && name == "seq") return print(counted(words));
    const std::optional<std::string> text = printed_without_input(words);
    if (text) return !command.is_negated && print(text);
    if (finds_by_expression(command)) keep_values();
    const std::optional<bool> success = shell_condition(command, values_);
    ask(words);
    branches_.ended(success);
    return success.has_value();
  }

  /// Keeps the values from before the substitution, to give them back behind it.
  void keep_values() {
    if (!subshell_) subshell_.emplace(values_, line_);
  }

  /// Follows assignments, which are gone behind the substitution.
  bool assign(const ShellCommand& command) {
    if (!command.words.empty()) return false;
    keep_values();
    for (const ShellAssignment& assignment : command.assignments) values_.assign(assignment);
    branches_.ended(true);
    return true;
  }

  bool call(const std::vector<ShellCommand>& body, const std::vector<ShellField>& words) {
    if (depth_ == kMostCalls) return false;
    keep_values();
    const ShellBranches around = branches_;
    branches_.enter(ShellRuns::yes);
    const ShellValues::CallScope scope(values_, {words.begin() + 1, words.end()});
    ++depth_;
    const bool is_known = read(body);
    --depth_;
    has_returned_ = false;
    branches_ = around;
    branches_.ended(std::nullopt);
    return is_known;
  }

  /// Follows `shift` in a function, whose arguments are gone behind it.
  bool shift() {
    values_.shift(1, line_);
    branches_.ended(true);
    return true;
  }

  /// Follows a command that gets a here-string or a here-document.
  bool print_input(const ShellCommand& command, const std::vector<ShellField>& words) {
    const std::optional<std::string> input = input_of(command);
    if (!input) return false;
    const bool is_handed_on = words.size() == 1 && words.front().text == "cat";
    const std::optional<std::string> text = is_handed_on ? input : filtered(words, *input);
    if (!text) ask(*input);
    return print(text);
  }

  /// A command that prints nothing has ended.
  bool end(bool success) {
    branches_.ended(success);
    return true;
  }

  bool print(const std::optional<std::string>& text) {
    if (!text) return false;
    values_.charge(text->size(), line_);
    text_ += *text;
    branches_.ended(true);
    return text_.size() <= kMostPrintedBytes;
  }

  ShellValues& values_;
  ShellBranches branches_;
  std::string text_;
  std::string asked_;
  std::optional<ShellValues::Subshell> subshell_;  // from where a value is assigned
  int line_;
  int depth_ = 0;  // of calls
  int commands_ = 0;
  bool has_returned_ = false;
};

/// Whether a text may have a command whose output is followed.
bool may_print(std::string_view commands, const ShellValues& values) {
  const std::size_t first = std::min(commands.find_first_not_of(" \t\n"), commands.size());
  if (commands.substr(first).starts_with('<')) return false;  // the text of a file
  for (const char* name : {"echo", "printf", "expr", "seq", "basename", "dirname", "<<", "python", "BEGIN"})
    if (commands.find(name) != std::string_view::npos) return true;
  const std::size_t begin = std::min(commands.find_first_not_of(" \t\n"), commands.size());
  const std::size_t end = std::min(commands.find_first_of(" \t\n;|&<>()", begin), commands.size());
  return values.function(std::string(commands.substr(begin, end - begin))) != nullptr;
}

}  // namespace

ShellOutput shell_output(std::string_view source, int line, ShellValues& values) {
  const std::string_view commands = commands_of(source);
  if (!may_print(commands, values)) return {};
  try {
    return OutputReader(values, line).output(parse_shell(commands, line).commands);
  } catch (const sim::Error& error) {
    if (error.refusal().code != "script_syntax") throw;
    return {};
  }
}

ShellOutput shell_output(std::span<const ShellCommand> commands, ShellValues& values) {
  return commands.empty() ? ShellOutput() : OutputReader(values, commands.front().line).output(commands);
}

}  // namespace verify
