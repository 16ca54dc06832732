#include "verify/run_arguments/run_script.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <fmt/format.h>
#include <map>
#include <memory>
#include <span>
#include <utility>

#include "sim/base/error.h"
#include "verify/run_arguments/launch_arguments.h"
#include "verify/run_arguments/launch_command.h"
#include "verify/run_arguments/launch_world.h"
#include "verify/run_arguments/script_launches.h"
#include "verify/run_arguments/shell_arithmetic.h"
#include "verify/run_arguments/shell_branches.h"
#include "verify/run_arguments/shell_condition.h"
#include "verify/run_arguments/shell_output.h"
#include "verify/run_arguments/shell_values.h"
#include "verify/run_arguments/shell_word_reader.h"
#include "verify/run_arguments/shell_words.h"

namespace verify {

namespace {

constexpr int kMostNesting = 8;  // of here-documents, of `bash -c` and of calls
constexpr std::size_t kMostScriptCommands = 1'000'000;
constexpr int kMostOpenReads = 200;

using Fields = std::vector<ShellField>;

bool is_option(std::string_view word) { return word.starts_with('-'); }

bool only_prints(std::string_view word) { return word == "echo" || word == "printf"; }

/// Returns the variables that a command ((...)) assigns.
std::vector<std::string> names_assigned_in(const ShellCommand& command) {
  if (command.words.size() != 2 || command.words[0].parts.empty()) return {};
  const std::vector<ShellPart>& parts = command.words[1].parts;
  const bool is_arithmetic = parts.size() == 1 && parts[0].kind == ShellPart::Kind::arithmetic &&
                             command.words[0].parts.front().text == "((";
  return is_arithmetic ? names_assigned_by(parts[0].text) : std::vector<std::string>();
}

bool is_blank_of_input(char c) { return c == ' ' || c == '\t' || c == '\n'; }

/// Returns a text without the blanks at its ends that are among these signs.
std::string without_blanks(std::string_view text, std::string_view signs = " \t") {
  const auto is_blank = [&](char c) {
    return is_blank_of_input(c) && signs.find(c) != std::string_view::npos;
  };
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return std::string(text);
}

/// Returns an assignment of ((...)) and `let` with a plain sign: "I = I + (2)" of I+=2, "I = I + 1" of I++.
std::string with_plain_sign(std::string_view text) {
  std::string whole = without_blanks(text);
  for (const std::string_view step : {"++", "--"}) {
    std::string name = whole;
    if (name.ends_with(step)) name = without_blanks(std::string_view(name).substr(0, name.size() - 2));
    if (name.starts_with(step)) name = without_blanks(std::string_view(name).substr(2));
    const bool is_name = !name.empty() && name != whole && begins_shell_name(name.front()) &&
                         std::ranges::all_of(name, is_of_shell_name);
    if (is_name) return fmt::format("{} = {} {} 1", name, name, step[0]);
  }
  std::size_t length = 0;
  while (length < whole.size() && is_of_shell_name(whole[length])) ++length;
  const std::string name = whole.substr(0, length);
  const std::string behind = without_blanks(std::string_view(whole).substr(length));
  for (const std::string_view sign : {"+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>"}) {
    const bool is_there = behind.starts_with(sign) && behind.substr(sign.size()).starts_with('=');
    if (is_there && !name.empty())
      return fmt::format("{} = {} {} ({})", name, name, sign, behind.substr(sign.size() + 1));
  }
  return whole;
}

/// Returns NAME=expression of ((...)) and `let` as an assignment; none where it assigns in another way.
std::optional<ShellAssignment> arithmetic_assignment(std::string_view written, int line) {
  const std::string text = with_plain_sign(written);
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || text.find('=', equals + 1) != std::string::npos) return std::nullopt;
  const std::string name = without_blanks(std::string_view(text).substr(0, equals));
  const std::string_view value = std::string_view(text).substr(equals + 1);
  const bool has_quotes = value.find_first_of("'\"\\`") != std::string_view::npos;
  const bool is_plain = !has_quotes && !name.empty() && begins_shell_name(name.front()) &&
                        std::ranges::all_of(name, is_of_shell_name) &&
                        value.find(',') == std::string_view::npos && names_assigned_by(value).empty();
  if (!is_plain) return std::nullopt;
  ShellWord word = ShellWordReader(fmt::format("$(({}))", value), line, 0).whole_word(true);
  const bool has_plain_sign = with_plain_sign(written) == without_blanks(written);
  if (!has_plain_sign && word.parts.size() == 1) word.parts.front().source = fmt::format("(({}))", written);
  return ShellAssignment{.name = name,
                         .appends = false,
                         .is_array = false,
                         .is_local = false,
                         .is_associative = false,
                         .is_reference = false,
                         .key = {},
                         .values = {std::move(word)},
                         .line = line};
}

/// Returns the index of the keyword that ends what begins here, or that of the last command.
std::size_t end_of(std::span<const ShellCommand> commands, std::size_t begin, ShellKeyword begins,
                   ShellKeyword ends) {
  int open = 0;
  for (std::size_t i = begin; i < commands.size(); ++i) {
    if (commands[i].keyword == begins) ++open;
    if (commands[i].keyword == ends && --open == 0) return i;
  }
  return commands.size();
}

/// The variables of a `read`, and how it reads them.
struct InputNames {
  std::vector<std::string> names;
  bool is_raw = false;       // -r
  bool is_array = false;     // -a: the one variable gets all words
  bool is_whole = false;     // -d '': not only the first line
  bool is_followed = false;  // there is no other option
};

InputNames names_of_input(const Fields& words) {
  InputNames asked{.names = {}, .is_followed = words.front().text == "read"};
  for (auto word = words.begin() + 1; word != words.end(); ++word) {
    if (!is_option(word->text)) {
      const bool is_name = !word->text.empty() && std::ranges::all_of(word->text, is_of_shell_name);
      if (is_name) asked.names.push_back(word->text);
      asked.is_followed = asked.is_followed && is_name;
      continue;
    }
    for (const char letter : word->text.substr(1)) {
      if (letter == 'd' && word + 1 != words.end() && word->text.ends_with('d')) {
        ++word;
        asked.is_whole = word->text.empty();
        asked.is_followed = asked.is_followed && asked.is_whole;
        break;
      }
      asked.is_raw = asked.is_raw || letter == 'r';
      asked.is_array = asked.is_array || letter == 'a';
      asked.is_followed = asked.is_followed && (letter == 'r' || letter == 'a');
    }
  }
  if (asked.is_array && asked.names.size() != 1) asked.is_followed = false;
  return asked;
}

/// Takes the first word from a text whose words these signs separate. Blanks among them separate words as
/// often as they stand there; each other sign ends a word.
std::optional<std::string> next_of_input(std::string_view& text, const std::string& signs) {
  const auto is_blank = [&](char c) { return is_blank_of_input(c) && signs.find(c) != std::string::npos; };
  const auto skip_blanks = [&] {
    while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  };
  skip_blanks();
  if (text.empty()) return std::nullopt;
  const std::size_t end = std::min(text.find_first_of(signs), text.size());
  const std::string word(text.substr(0, end));
  text.remove_prefix(end);
  skip_blanks();
  const bool is_sign = !text.empty() && signs.find(text.front()) != std::string::npos;
  if (is_sign) text.remove_prefix(1);
  return word;
}

class ScriptReader {
 public:
  explicit ScriptReader(const RunVariables& set) : values_(set), launches_(values_) {}
  ScriptReader(const ScriptReader&) = delete;  // its launches hold its values
  ScriptReader& operator=(const ScriptReader&) = delete;

  void read(std::string_view text, int first_line, int depth);
  RunArguments arguments();

 private:
  using Commands = std::span<const ShellCommand>;

  void read(Commands commands, int depth);
  /// A loop, and the values of its list.
  struct Loop {
    const ShellCommand* begin = nullptr;
    Commands condition;
    Commands body;
    std::optional<Fields> list;
  };
  std::optional<Fields> list_of_loop(const ShellCommand& loop);
  static bool is_endless(Commands condition);
  bool reads_loop(Commands commands, std::size_t begin, int depth);
  void read_rounds(const Loop& loop, int depth);
  std::optional<bool> begins_round(const Loop& loop, std::size_t round, int depth);
  void assign_expression(const std::string& expression, int line, ShellRuns runs);
  void read_builtin(const ShellCommand& command, const Fields& words, ShellRuns runs);
  void read_input(const ShellCommand& command, const Fields& words, ShellRuns runs);
  std::optional<std::string> input_of(const ShellCommand& command, const InputNames& asked);
  void read(const ShellCommand& command, int depth);
  void read(const ShellCommand& command, const Fields& words, ShellRuns runs, int depth);
  void read_allocation(const Fields& words);
  void read_documents(const ShellCommand& command, const Fields& words, int depth);
  void assign(const ShellCommand& command, ShellRuns runs);
  void assign(const ShellAssignment& assignment, bool is_certain);
  void assign_declared(const ShellCommand& command, ShellRuns runs);
  void assign_by_arithmetic(const ShellCommand& command, const Fields& words, ShellRuns runs);
  bool calls_function(const Fields& words, ShellRuns runs, int depth);
  void read_functions_without_a_call();
  void read_nested(std::string_view text, int line, int depth);
  void read_command_text(std::string_view text, int line, int depth);
  void find_launch(const Fields& words, ShellRuns runs, int line, int depth);
  void read_evaluated(const Fields& words, ShellRuns runs, int depth);
  bool reads_wrapped(const Fields& words, int depth);
  void read_inner_shell(const Fields& words, int depth);

  ShellValues values_;
  ShellBranches branches_;
  LaunchWorld world_;
  ScriptLaunches launches_;
  std::vector<std::string> given_to_command_;  // the variables that stand before a command that is read
  int open_documents_ = 0;                     // here-documents that are read
  int open_reads_ = 0;                         // lists of commands that are read, one inside of the other
  int ended_ = 0;                              // the line of the `exit` that has ended the script; 0: none
  int open_calls_ = 0;                         // functions that are read where they are called
  bool has_returned_ = false;                  // the function that is read has come to its `return`
  std::int64_t leaves_ = 0;                    // loops that a `break` or a `continue` leaves
  bool continues_ = false;                     // the last one of them goes on with its next round

  struct Function {
    ShellValues::Commands commands;
    bool is_called = false;
  };
  std::map<std::string, Function> functions_;
  std::size_t commands_ = 0;  // that were read
};

void ScriptReader::read(std::string_view text, int first_line, int depth) {
  const ShellScript script = parse_shell(text, first_line);
  for (const auto& [line, directive] : script.directives) {
    Fields words;
    for (const ShellCommand& command : parse_shell(directive, line).commands) {
      const Fields expanded = values_.expand(command.words);
      words.insert(words.end(), expanded.begin(), expanded.end());
    }
    read_allocation(words);
  }
  read(script.commands, depth);
}

void ScriptReader::read(Commands commands, int depth) {
  if (++open_reads_ > kMostOpenReads) {
    sim::refuse({.code = "script_syntax",
                 .option = commands.empty() ? "--from" : fmt::format("line {}", commands.front().line),
                 .numbers = fmt::format("subshells, loops or calls nested more than {} deep", kMostOpenReads),
                 .rule = "a launch script is nested a few levels deep",
                 .hint = "the command line alone"});
  }
  for (std::size_t i = 0; i < commands.size() && ended_ == 0 && !has_returned_ && leaves_ == 0; ++i) {
    const ShellCommand& command = commands[i];
    if (command.keyword == ShellKeyword::function_begins) {
      const std::size_t end = end_of(commands, i, ShellKeyword::function_begins, ShellKeyword::function_ends);
      const Fields name = values_.expand(command.words);
      const Commands body = commands.subspan(i + 1, end - i - 1);
      if (name.size() == 1) {
        const auto kept = std::make_shared<const std::vector<ShellCommand>>(body.begin(), body.end());
        functions_[name.front().text] = {kept, false};
        values_.define_function(name.front().text, kept);
      }
      i = end;
    } else if (command.keyword == ShellKeyword::subshell_begins) {
      const std::size_t end = end_of(commands, i, ShellKeyword::subshell_begins, ShellKeyword::subshell_ends);
      {
        const ShellValues::Subshell subshell(values_, command.line);
        branches_.follow(command, values_);
        read(commands.subspan(i + 1, end - i - 1), depth);
      }
      has_returned_ = false;
      leaves_ = 0;
      if (std::exchange(ended_, 0) != 0) branches_.ended(std::nullopt);
      if (end < commands.size()) branches_.follow(commands[end], values_);
      i = end;
    } else if (reads_loop(commands, i, depth)) {
      i = end_of(commands, i, ShellKeyword::loop_begins, ShellKeyword::loop_ends);
    } else {
      read(command, depth);
    }
  }
  --open_reads_;
}

/// Returns the list of a `for`, where all of its values are known.
std::optional<std::vector<ShellField>> ScriptReader::list_of_loop(const ShellCommand& loop) {
  if (loop.words.empty()) return std::nullopt;
  Fields list = values_.expand(loop.words);
  const auto is_plain = [&](const ShellField& word) {
    return !word.has_unknown() && word.text.find_first_of(kPatternSigns) == std::string::npos;
  };
  return std::ranges::all_of(list, is_plain) ? std::optional(std::move(list)) : std::nullopt;
}

/// Reads a loop that certainly begins here, round by round, as long as it is known that there is another one.
/// Returns false for a loop of which this is not known from the first round on.
bool ScriptReader::reads_loop(Commands commands, std::size_t begin, int depth) {
  const ShellCommand& loop = commands[begin];
  if (loop.keyword != ShellKeyword::loop_begins || branches_.around() != ShellRuns::yes) return false;
  const std::size_t end = end_of(commands, begin, ShellKeyword::loop_begins, ShellKeyword::loop_ends);
  std::size_t body = begin + 1;
  while (body < end && commands[body].keyword != ShellKeyword::body_begins) ++body;
  if (body == end) return false;
  Loop parts{.begin = &loop,
             .condition = commands.subspan(begin + 1, body - begin - 1),
             .body = commands.subspan(body + 1, end - body - 1)};
  if (loop.loop == "for" && loop.steps.empty()) {
    parts.list = list_of_loop(loop);
    if (!parts.list) return false;
  } else if (loop.steps.size() == 3) {
    if (without_blanks(loop.steps[1]).empty()) return false;
    assign_expression(loop.steps[0], loop.line, ShellRuns::yes);
  } else if (loop.loop == "for" || loop.loop == "select" || is_endless(parts.condition)) {
    return false;
  }
  branches_.enter_loop();
  read_rounds(parts, depth);
  branches_.leave_loop();
  return true;
}

/// Whether the condition of a loop is `true` or `:`.
bool ScriptReader::is_endless(Commands condition) {
  return condition.size() == 1 && condition[0].words.size() == 1 &&
         (is_literal(condition[0].words[0], "true") || is_literal(condition[0].words[0], ":"));
}

void ScriptReader::read_rounds(const Loop& loop, int depth) {
  constexpr std::size_t kMostRounds = 10'000;
  constexpr std::size_t kMostLaunches = 100;  // of a loop that starts the training again and again
  const std::size_t launches = launches_.size();
  for (std::size_t round = 0;; ++round) {
    if (round == kMostRounds || launches_.size() > launches + kMostLaunches) branches_.may_leave(1);
    bool is_last = branches_.around() != ShellRuns::yes && !loop.list;
    const std::optional<bool> goes_on = begins_round(loop, round, depth);
    if (goes_on == false || ended_ != 0 || has_returned_) return;
    if (!goes_on) branches_.may_leave(1);
    is_last = is_last || (!goes_on && !loop.list);
    read(loop.body, depth);
    if (ended_ != 0 || has_returned_) return;
    if (leaves_ > 0 && (--leaves_ > 0 || !continues_)) return;
    branches_.next_round();
    if (loop.begin->steps.size() == 3)
      assign_expression(loop.begin->steps[2], loop.begin->line, branches_.around());
    if (is_last) return read(loop.condition, depth);  // of the round behind it, which may change variables
  }
}

/// Whether there is a round of a loop with this number; none: it is not known.
std::optional<bool> ScriptReader::begins_round(const Loop& loop, std::size_t round, int depth) {
  const ShellCommand& begin = *loop.begin;
  if (loop.list) {
    if (round == loop.list->size()) return false;
    if (branches_.around() == ShellRuns::yes) {
      values_.define(begin.loop_variable, (*loop.list)[round].text, begin.line);
    } else {
      values_.forget(begin.loop_variable, begin.line, "it takes several values in a loop");
    }
    return true;
  }
  std::optional<bool> truth;
  if (begin.steps.size() == 3) {
    const std::string source = fmt::format("$(({}))", begin.steps[1]);
    const ShellWord condition = ShellWordReader(source, begin.line, 0).whole_word(true);
    if (const auto number = whole_number(values_.whole(condition).text)) truth = *number != 0;
  } else {
    read(loop.condition, depth);
    truth = branches_.succeeded();
    if (truth && begin.loop == "until") truth = !*truth;
  }
  return branches_.around() == ShellRuns::yes ? truth : std::nullopt;
}

/// Reads the commands of a function where it is called. Returns whether the words are a call.
bool ScriptReader::calls_function(const Fields& words, ShellRuns runs, int depth) {
  const auto found = words.empty() ? functions_.end() : functions_.find(words.front().text);
  if (found == functions_.end() || depth == kMostNesting) return false;
  found->second.is_called = true;
  const ShellValues::Commands commands = found->second.commands;  // a call may define it anew
  const ShellBranches around = branches_;
  branches_.enter(runs);
  {
    const ShellValues::CallScope call(values_, {words.begin() + 1, words.end()});
    ++open_calls_;
    read(*commands, depth + 1);
    --open_calls_;
  }
  has_returned_ = false;
  leaves_ = 0;
  branches_ = around;
  branches_.ended(std::nullopt);
  return true;
}

/// Of a file in which no command is found, the functions that nothing here calls: something may call them by
/// their name.
void ScriptReader::read_functions_without_a_call() {
  std::vector<ShellValues::Commands> bodies;
  for (const auto& [name, function] : functions_)
    if (!function.is_called) bodies.push_back(function.commands);
  for (const ShellValues::Commands& body : bodies) read(*body, kMostNesting);
}

void ScriptReader::read(const ShellCommand& command, int depth) {
  if (command.keyword != ShellKeyword::none) {
    branches_.follow(command, values_);
    for (const std::string& step : command.steps) assign_expression(step, command.line, ShellRuns::maybe);
    if (!command.loop_variable.empty())
      values_.forget(command.loop_variable, command.line, "it takes several values in a loop");
    return;
  }
  const ShellRuns runs = branches_.runs(command);
  if (runs == ShellRuns::no) {
    for (const ShellAssignment& assignment : command.assignments) values_.leave_unassigned(assignment);
    return;
  }
  if (++commands_ > kMostScriptCommands) {
    sim::refuse({.code = "run_file_size",
                 .option = fmt::format("line {}", command.line),
                 .numbers = fmt::format("more than {} commands", kMostScriptCommands),
                 .rule = "a launch script runs few commands",
                 .hint = "the command line alone"});
  }
  const Fields words = values_.expand(command.words);
  if (words.empty() || command.assignments.empty()) {
    assign(command, runs);
    assign_declared(command, runs);
    return read(command, words, runs, depth);
  }
  // Assignments before a word are those of the command alone, which is read as if it ran.
  std::vector<std::pair<std::string, std::optional<Fields>>> before;
  for (const ShellAssignment& assignment : command.assignments) {
    const std::string name = values_.referred(assignment.name);
    before.emplace_back(name, values_.kept(name, command.line));
  }
  assign(command, branches_.around());
  const std::size_t outer = given_to_command_.size();
  for (const auto& [name, value] : before) given_to_command_.push_back(name);
  read(command, words, runs, depth);
  given_to_command_.resize(outer);
  for (auto kept = before.rbegin(); kept != before.rend(); ++kept)
    values_.give_back(kept->first, std::move(kept->second));
}

void ScriptReader::assign(const ShellCommand& command, ShellRuns runs) {
  for (const ShellAssignment& assignment : command.assignments) {
    assign(assignment, runs == ShellRuns::yes || branches_.gives_default(command, assignment.name));
  }
}

void ScriptReader::assign(const ShellAssignment& assignment, bool is_certain) {
  if (is_certain) {
    values_.assign(assignment);
  } else {
    values_.assign_perhaps(assignment, branches_.asked());
  }
}

/// Follows the words of `export` and its like that become assignments when they are expanded.
void ScriptReader::assign_declared(const ShellCommand& command, ShellRuns runs) {
  for (const ShellField& word : values_.expand(command.declared)) {
    const std::size_t equals = std::min(word.text.find('='), word.text.size());
    std::string name = word.text.substr(0, equals);
    const bool appends = name.ends_with('+');
    if (appends) name.pop_back();
    if (name.find(kUnknownBegin) != std::string::npos) {
      launches_.keep_assigning(word, command.line);
      continue;
    }
    const bool is_name =
        !name.empty() && begins_shell_name(name.front()) && std::ranges::all_of(name, is_of_shell_name);
    if (!is_name || equals == word.text.size()) continue;
    const ShellPart value{
        .kind = ShellPart::Kind::literal, .is_quoted = true, .text = word.text.substr(equals + 1)};
    assign(ShellAssignment{.name = name,
                           .appends = appends,
                           .is_array = false,
                           .is_local = command.declares_local,
                           .is_associative = false,
                           .is_reference = false,
                           .key = {},
                           .values = {{.parts = {value}, .line = word.line}},
                           .line = word.line},
           runs == ShellRuns::yes);
  }
}

/// Follows ((NAME=expression)) and `let NAME=expression`.
void ScriptReader::assign_by_arithmetic(const ShellCommand& command, const Fields& words, ShellRuns runs) {
  std::vector<std::string> expressions;
  const std::vector<std::string> names = names_assigned_in(command);
  if (!names.empty()) expressions = {command.words[1].parts[0].text};
  if (!words.empty() && words.front().text == "let") {
    for (auto word = words.begin() + 1; word != words.end(); ++word) expressions.push_back(word->text);
  }
  for (const std::string& expression : expressions) assign_expression(expression, command.line, runs);
}

void ScriptReader::assign_expression(const std::string& expression, int line, ShellRuns runs) {
  if (const auto assignment = arithmetic_assignment(expression, line))
    return assign(*assignment, runs == ShellRuns::yes);
  for (const std::string& name : names_assigned_by(expression))
    values_.forget(name, line, "it is assigned by arithmetic");
}

/// Reads a command, whose words are these.
void ScriptReader::read(const ShellCommand& command, const Fields& words, ShellRuns runs, int depth) {
  if (!words.empty()) read_builtin(command, words, runs);
  if (calls_function(words, runs, depth)) return;
  assign_by_arithmetic(command, words, runs);
  find_launch(words, runs, command.line, depth);
  read_documents(command, words, depth);
  const bool is_certain = command.chain.empty() || (runs == ShellRuns::yes && command.chain != "|");
  const std::optional<bool> success = is_certain ? shell_condition(command, values_) : std::nullopt;
  if (runs != ShellRuns::yes && finds_by_expression(command))
    values_.forget(kFoundByExpression, command.line, "it is assigned in a branch");
  if (success) return branches_.ended(success);
  branches_.ended(success, values_.unknown_variables(words),
                  is_certain ? name_tested_as_empty(command, values_) : "");
}

/// Follows the commands of the shell that change variables, or end the script.
void ScriptReader::read_builtin(const ShellCommand& command, const Fields& words, ShellRuns runs) {
  const std::string& name = words.front().text;
  const bool is_certain = runs == ShellRuns::yes && command.chain != "|";
  if (name == "shift") {
    const auto count = words.size() > 1 ? whole_number(words[1].text) : std::int64_t{1};
    const bool is_known = is_certain && count && *count >= 0;
    values_.shift(is_known ? std::optional(static_cast<std::size_t>(*count)) : std::nullopt, command.line);
  } else if (name == "set" && words.size() > 1 && words[1].text == "--") {
    values_.set_arguments(is_certain ? std::optional(Fields(words.begin() + 2, words.end())) : std::nullopt,
                          command.line);
  } else if (name == "unset") {
    const std::string option = words.size() > 1 && is_option(words[1].text) ? words[1].text : "";
    if (option == "-f") return;
    const bool is_of_reference = option == "-n";
    for (auto word = words.begin() + 1; word != words.end(); ++word) {
      const std::string variable = word->text.substr(0, word->text.find('['));
      const bool is_whole = variable == word->text;
      if (is_option(variable)) continue;
      if (is_certain && is_whole && is_of_reference) {
        values_.unset_reference(variable);
      } else if (is_certain && is_whole) {
        values_.unset(variable, command.line);
      } else {
        values_.forget(variable, command.line, "it may have been unset");
      }
    }
  } else if (name == "printf" && words.size() > 2 && words[1].text == "-v") {
    Fields printed = words;
    printed.erase(printed.begin() + 1, printed.begin() + 3);
    const std::optional<std::string> text = is_certain ? printed_text(printed) : std::nullopt;
    if (text) values_.define(words[2].text, *text, command.line);
    if (!text) values_.forget(words[2].text, command.line, "it is printed into it");
  } else if (name == "read" || name == "mapfile" || name == "readarray") {
    read_input(command, words, runs);
  } else if (name == "exit" && is_certain) {
    ended_ = command.line;
  } else if (name == "break" || name == "continue") {
    const std::int64_t loops = words.size() > 1 ? whole_number(words[1].text).value_or(1) : 1;
    if (runs != ShellRuns::yes) return branches_.may_leave(loops);
    leaves_ = std::min(std::max<std::int64_t>(loops, 1), branches_.known_loops());
    continues_ = name == "continue";
  } else if (name == "return" && open_calls_ > 0) {
    const bool fails = words.size() > 1 && words[1].text != "0";
    has_returned_ = is_certain;
    if (!is_certain && !fails) branches_.may_return();  // where it fails, the run has not gone this way
  }
}

/// Follows `read`: its variables get the words of a here-document or here-string, and the one of `read -d ''`
/// gets all of it. What others read is not known.
void ScriptReader::read_input(const ShellCommand& command, const Fields& words, ShellRuns runs) {
  const InputNames asked = names_of_input(words);
  const bool is_certain = runs == ShellRuns::yes && command.chain != "|" && asked.is_followed;
  const std::optional<std::string> text = is_certain ? input_of(command, asked) : std::nullopt;
  for (const std::string& name : asked.names) {
    if (!text) values_.forget(name, command.line, "it is read from the input");
  }
  if (!text || asked.names.empty()) return;
  const std::optional<Fields> separators = values_.kept("IFS", command.line);
  const std::string signs = separators && separators->size() == 1 ? separators->front().text : " \t\n";
  std::string_view rest = *text;
  if (asked.is_array) {
    Fields fields;
    while (const auto word = next_of_input(rest, signs)) fields.push_back({*word, command.line});
    return values_.define(asked.names.front(), std::move(fields));
  }
  for (std::size_t i = 0; i + 1 < asked.names.size(); ++i)
    values_.define(asked.names[i], next_of_input(rest, signs).value_or(""), command.line);
  // A separator at the end of the last word is no part of it, where nothing but this word is left.
  std::string_view behind = rest;
  const std::string last = next_of_input(behind, signs).value_or("");
  values_.define(asked.names.back(), behind.empty() ? last : without_blanks(rest, signs), command.line);
}

/// Returns the text that `read` takes its words of; nothing where it is not known.
std::optional<std::string> ScriptReader::input_of(const ShellCommand& command, const InputNames& asked) {
  std::string text;
  if (command.input != nullptr && command.documents.empty()) {
    text = values_.whole(*command.input).text + "\n";
  } else if (command.documents.size() == 1 && command.input == nullptr) {
    text = values_.text_of(command.documents.front());
  } else {
    return std::nullopt;
  }
  if (!asked.is_raw && text.find('\\') != std::string::npos) return std::nullopt;
  if (!asked.is_whole) text.resize(std::min(text.find('\n'), text.size()));
  // What is not known may hold any number of words.
  const bool is_one = asked.is_whole && !asked.is_array && asked.names.size() == 1;
  return is_one || text.find(kUnknownBegin) == std::string::npos ? std::optional(text) : std::nullopt;
}

/// Reads how many processes `sbatch` or an #SBATCH line asks for.
void ScriptReader::read_allocation(const Fields& words) {
  world_.read(words, "srun");
  for (const auto& [name, value] : world_.slurm_variables()) values_.define(name, value.text, value.line);
}

/// Reads here-documents, whose text may be a script.
void ScriptReader::read_documents(const ShellCommand& command, const Fields& words, int depth) {
  const std::string program = words.empty() ? "" : words.front().text;
  if (command.documents.empty() || program == "read") return;
  if (base_name(program) == "sbatch") read_allocation(words);
  ++open_documents_;
  for (const HereDocument& document : command.documents)
    read_nested(values_.text_of(document), document.line, depth);
  --open_documents_;
}

/// Reads the text of a here-document or of `bash -c`, which may be no script at all.
void ScriptReader::read_nested(std::string_view text, int line, int depth) {
  const bool may_launch =
      text.find("--") != std::string_view::npos || text.find(".sh") != std::string_view::npos;
  if (may_launch) read_command_text(text, line, depth);
}

void ScriptReader::read_command_text(std::string_view text, int line, int depth) {
  if (depth == kMostNesting) return;
  const ShellBranches around = branches_;
  const int open_reads = open_reads_;
  const int open_calls = open_calls_;
  try {
    read(text, line, depth + 1);
  } catch (const sim::Error& error) {
    if (error.refusal().code != "script_syntax") throw;
  }
  branches_ = around;
  open_reads_ = open_reads;
  open_calls_ = open_calls;
  ended_ = 0;  // it ends a shell of its own
}

void ScriptReader::find_launch(const Fields& words, ShellRuns runs, int line, int depth) {
  if (words.empty() || only_prints(words.front().text)) return;
  launches_.keep_what_is_not_known(words);
  if (words.front().text == "eval") return read_evaluated(words, runs, depth);
  if (is_flag(words.front().text)) return launches_.add_arguments(words, line, open_documents_ > 0);
  const bool starts_shell = std::ranges::any_of(words, [](const ShellField& word) {
    return is_shell(word.text) || only_starts(word.text) || word.text.ends_with(".sh");
  });
  auto script = training_script(words);
  if (script == words.end() && !starts_shell) script = unknown_training_script(words);
  const auto dashes =
      std::find_if(words.rbegin(), words.rend(), [](const ShellField& word) { return word.text == "--"; });
  if (dashes != words.rend() && dashes.base() > script) {  // a launcher of somebody's own, and its command
    const Fields behind(dashes.base(), words.end());
    if (training_script(behind) != behind.end()) return find_launch(behind, runs, line, depth);
  }
  if (script != words.end()) return launches_.add(words, script, line, given_to_command_);
  if (base_name(words.front().text) == "sbatch" && reads_wrapped(words, depth)) return;
  launches_.keep_started(words, line, given_to_command_);
  read_inner_shell(words, depth);
}

/// Reads the text that `eval` executes.
void ScriptReader::read_evaluated(const Fields& words, ShellRuns runs, int depth) {
  std::string text;
  for (auto word = words.begin() + 1; word != words.end(); ++word)
    text += (text.empty() ? "" : " ") + word->text;
  // Where the command itself is the output of another one, it may be an assignment.
  const std::vector<Unresolved> unknown =
      text.starts_with(kUnknownBegin) ? values_.unresolved(text) : std::vector<Unresolved>();
  const bool is_output = !unknown.empty() && unknown.front().text.find_first_of("(`") != std::string::npos;
  if (is_output) launches_.keep_assigning(words[1], words[1].line);
  const ShellBranches around = branches_;
  branches_.enter(runs);
  read_command_text(text, words.back().line, depth);
  branches_ = around;
}

/// Reads the command of `sbatch --wrap`. Returns whether there is one.
bool ScriptReader::reads_wrapped(const Fields& words, int depth) {
  const auto wrapped =
      std::ranges::find_if(words, [](const ShellField& word) { return word.text.starts_with("--wrap"); });
  if (wrapped == words.end()) return false;
  const bool is_one_word = wrapped->text.starts_with("--wrap=");
  const auto command = is_one_word || wrapped + 1 == words.end() ? wrapped : wrapped + 1;
  read_allocation({words.begin(), wrapped});
  read_nested(is_one_word ? command->text.substr(7) : command->text, command->line, depth);
  return true;
}

/// Reads the text that a shell inside of a command gets: of another command, which the launcher before the
/// shell starts.
void ScriptReader::read_inner_shell(const Fields& words, int depth) {
  const auto shell =
      std::find_if(words.begin(), words.end(), [](const ShellField& word) { return is_shell(word.text); });
  for (auto word = shell; word != words.end(); ++word) {
    if (!has_blank(word->text)) continue;
    const std::size_t before = launches_.size();
    read_nested(word->text, word->line, depth);
    if (launches_.size() > before) launches_.add_launcher_of_last({words.begin(), shell});
  }
}

RunArguments ScriptReader::arguments() {
  if (launches_.size() == 0) read_functions_without_a_call();
  return launches_.arguments(world_, ended_);
}

}  // namespace

RunArguments read_run_script(std::string_view text, const RunVariables& set) {
  ScriptReader reader(set);
  reader.read(text, 1, 0);
  RunArguments run = reader.arguments();
  run.kind = RunFileKind::script;
  constexpr const char* kConnections = "CUDA_DEVICE_MAX_CONNECTIONS";
  const auto handed_on =
      run.environment.contains(kConnections) ? std::nullopt : value_handed_on(text, kConnections);
  if (handed_on) run.environment[kConnections] = *handed_on;
  return run;
}

}  // namespace verify
