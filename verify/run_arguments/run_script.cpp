#include "verify/run_arguments/run_script.h"

#include <algorithm>
#include <cstddef>
#include <fmt/format.h>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/error.h"
#include "sim/base/printable_text.h"
#include "verify/run_arguments/launch_arguments.h"
#include "verify/run_arguments/launch_command.h"
#include "verify/run_arguments/script_reader.h"
#include "verify/run_arguments/shell_arithmetic.h"
#include "verify/run_arguments/shell_assignment.h"
#include "verify/run_arguments/shell_blocks.h"
#include "verify/run_arguments/shell_condition.h"
#include "verify/run_arguments/shell_mistakes.h"
#include "verify/run_arguments/shell_word_reader.h"

namespace verify {

namespace {

constexpr std::size_t kMostScriptCommands = 1'000'000;
constexpr int kMostOpenReads = 200;

/// Returns the options of the shell in the first line of a script, which is like "#!/bin/bash -e".
std::vector<std::string> options_of_first_line(std::string_view text) {
  if (!text.starts_with("#!")) return {};
  std::istringstream words(std::string(text.substr(2, text.find('\n') - 2)));
  std::vector<std::string> options;
  for (std::string word; words >> word;) {
    if (is_shell(word)) options.clear();
    if (!is_shell(word)) options.push_back(word);
  }
  return options;
}

/// Whether most lines of a text end with CR LF.
bool ends_as_on_windows(std::string_view text) {
  std::ptrdiff_t ends = 0;
  for (std::size_t at = text.find("\r\n"); at != std::string_view::npos; at = text.find("\r\n", at + 2))
    ++ends;
  return ends > 0 && 2 * ends > std::ranges::count(text, '\n');
}

constexpr const char* kEndsAsOnWindows =
    "the lines end as on Windows (CR LF), which is read here as LF alone; bash takes the CR for a part of "
    "the "
    "last word of its line, and a '\\' before it joins no lines: `dos2unix` mends the file";

/// Returns where a group, an `if` or a `case` that begins here ends; the number of commands for others.
std::size_t end_of_block(std::span<const ShellCommand> commands, std::size_t begin) {
  using enum ShellKeyword;
  switch (commands[begin].keyword) {
    case if_begins:
      return end_of(commands, begin, if_begins, if_ends);
    case case_begins:
      return end_of(commands, begin, case_begins, case_ends);
    case group_begins:
      return end_of(commands, begin, group_begins, group_ends);
    default:
      return commands.size();
  }
}

}  // namespace

std::size_t end_of(std::span<const ShellCommand> commands, std::size_t begin, ShellKeyword begins,
                   ShellKeyword ends) {
  int open = 0;
  for (std::size_t i = begin; i < commands.size(); ++i) {
    if (commands[i].keyword == begins) ++open;
    if (commands[i].keyword == ends && --open == 0) return i;
  }
  return commands.size();
}

void ScriptReader::read(std::string_view text, int first_line, int depth) {
  const ShellScript script = parse_shell(text, first_line);
  if (depth == 0) {
    require_whole_blocks(script, text.starts_with("#!"));
    ends_by_failure_ = ends_by_failure_behind(options_of_first_line(text), false);
  }
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
  std::vector<std::size_t> ends_of_inputs;  // the ends of the open blocks that have an input of their own
  for (std::size_t i = 0; i < commands.size() && ended_.line == 0 && !has_returned_ && leaves_ == 0; ++i) {
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
      const int conditions = conditions_;
      const bool ends_by_failure = ends_by_failure_;
      const bool has_input = open_input(command, end < commands.size() ? &commands[end] : nullptr);
      if (is_asked(commands, end)) ++conditions_;
      {
        const ShellValues::Subshell subshell(values_, command.line);
        branches_.follow(command, values_);
        read(commands.subspan(i + 1, end - i - 1), depth);
      }
      if (has_input) inputs_.pop_back();
      conditions_ = conditions;
      ends_by_failure_ = ends_by_failure;
      has_returned_ = false;
      leaves_ = 0;
      if (std::exchange(ended_, {}).line != 0) branches_.ended(std::nullopt);
      if (end < commands.size()) branches_.follow(commands[end], values_);
      i = end;
    } else if (reads_loop(commands, i, depth)) {
      i = end_of(commands, i, ShellKeyword::loop_begins, ShellKeyword::loop_ends);
    } else if (command.keyword == ShellKeyword::none) {
      const bool is_asked_for = is_asked(commands, i) || command.is_negated;
      if (is_asked_for) ++conditions_;
      has_certainly_failed_ = false;
      follow_pipe(commands, i);
      read(command, depth);
      if (is_asked_for) --conditions_;
      const bool ends = has_certainly_failed_ && ends_by_failure_ && !is_asked_for && conditions_ == 0;
      if (ends && ended_.line == 0) ended_ = {command.line, true};
    } else {
      if (const std::size_t end = end_of_block(commands, i); end < commands.size()) {
        if (open_input(command, &commands[end])) ends_of_inputs.push_back(end);
      }
      follow_groups(commands, i);
      read(command, depth);
    }
    if (!ends_of_inputs.empty() && i == ends_of_inputs.back()) {
      inputs_.pop_back();
      ends_of_inputs.pop_back();
    }
  }
  inputs_.resize(inputs_.size() - ends_of_inputs.size());  // of the blocks that are left before they end
  --open_reads_;
}

/// Whether another command asks for the success of one: && or || stands behind it, or a pipe.
bool ScriptReader::is_asked(Commands commands, std::size_t at) {
  return at + 1 < commands.size() && !commands[at + 1].chain.empty();
}

/// Counts a group { ... } whose success is asked for as a condition.
void ScriptReader::follow_groups(Commands commands, std::size_t at) {
  if (commands[at].keyword == ShellKeyword::group_begins) {
    const std::size_t end = end_of(commands, at, ShellKeyword::group_begins, ShellKeyword::group_ends);
    asked_groups_.push_back(is_asked(commands, end));
    if (asked_groups_.back()) ++conditions_;
  } else if (commands[at].keyword == ShellKeyword::group_ends && !asked_groups_.empty()) {
    if (asked_groups_.back()) conditions_ = std::max(conditions_ - 1, 0);
    asked_groups_.pop_back();
  }
}

/// Reads the commands of a function where it is called. Returns whether the words are a call. Whether a call
/// has failed is not known.
bool ScriptReader::calls_function(const ShellCommand& command, const Fields& words, ShellRuns runs,
                                  int depth) {
  const auto found = words.empty() ? functions_.end() : functions_.find(words.front().text);
  if (found == functions_.end() || depth == kMostScriptNesting) return false;
  found->second.is_called = true;
  const ShellValues::Commands commands = found->second.commands;  // a call may define it anew
  const ShellBranches around = branches_;
  const int conditions = conditions_;
  const std::size_t asked_groups = asked_groups_.size();
  branches_.enter(runs);
  {
    const ShellValues::CallScope call(values_, {words.begin() + 1, words.end()});
    const bool has_input = open_input(command, &command);
    ++open_calls_;
    read(*commands, depth + 1);
    --open_calls_;
    if (has_input) inputs_.pop_back();
  }
  has_certainly_failed_ = false;
  has_returned_ = false;
  leaves_ = 0;
  branches_ = around;
  conditions_ = conditions;  // a `return` leaves what it stands in
  asked_groups_.resize(asked_groups);
  branches_.ended(std::nullopt);
  return true;
}

/// Of a file in which no command is found, the functions that nothing here calls: something may call them by
/// their name.
void ScriptReader::read_functions_without_a_call() {
  std::vector<ShellValues::Commands> bodies;
  for (const auto& [name, function] : functions_) {
    if (function.is_called) continue;
    bodies.push_back(function.commands);
    const auto call = called_.find(name);
    if (call == called_.end()) continue;
    launches_.keep_sentence(
        fmt::format("line {} calls {} before the function of that name is defined: a shell finds no such "
                    "command there, and the function is read as if it were called",
                    call->second, sim::printable_text(name)));
  }
  for (const ShellValues::Commands& body : bodies) read(*body, kMostScriptNesting);
}

void ScriptReader::read(const ShellCommand& command, int depth) {
  if (command.keyword != ShellKeyword::none) {
    using enum ShellKeyword;
    if (command.keyword == if_begins) ++conditions_;
    if (command.keyword == condition_ends) conditions_ = std::max(conditions_ - 1, 0);
    if (command.keyword == elif_begins) ++conditions_;
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
                           .is_local = command.declares_local,
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
  arithmetic_success_.reset();
  for (const std::string& expression : expressions)
    arithmetic_success_ = assign_expression(expression, command.line, runs);
}

/// Follows an expression that may assign variables. Returns whether its value is another one than 0.
std::optional<bool> ScriptReader::assign_expression(const std::string& expression, int line, ShellRuns runs) {
  std::optional<bool> success;
  for (const std::string& part : parted_expressions(expression)) {
    success.reset();
    const auto found = arithmetic_assignment(part, line);
    if (!found) {
      for (const std::string& name : names_assigned_by(part))
        values_.forget(name, line, "it is assigned by arithmetic");
      continue;
    }
    assign(found->assignment, runs == ShellRuns::yes);
    const std::optional<Fields> value = values_.kept(found->assignment.name, line);
    const auto number = value && value->size() == 1 ? whole_number(value->front().text) : std::nullopt;
    if (runs == ShellRuns::yes && number) success = *number + found->behind != 0;
  }
  return success;
}

/// Reads a command, whose words are these.
void ScriptReader::read(const ShellCommand& command, const Fields& words, ShellRuns runs, int depth) {
  input_success_.reset();
  if (open_documents_ == 0) launches_.keep_sentence(mistake_in(command, words));
  if (!words.empty()) read_builtin(command, words, runs);
  if (calls_function(command, words, runs, depth)) return;
  constexpr std::size_t kMostCalls = 1000;
  if (runs == ShellRuns::yes && words.size() > 0 && called_.size() < kMostCalls)
    called_.try_emplace(words.front().text, command.line);
  assign_by_arithmetic(command, words, runs);
  find_launch(words, runs, command.line, depth);
  read_documents(command, words, depth);
  const bool is_certain = command.chain.empty() || (runs == ShellRuns::yes && command.chain != "|");
  const std::optional<bool> success = is_certain || piped_ ? success_of(command, words) : std::nullopt;
  has_certainly_failed_ = runs == ShellRuns::yes && success == false;
  if (runs != ShellRuns::yes && finds_by_expression(command))
    values_.forget(kFoundByExpression, command.line, "it is assigned in a branch");
  if (success) return branches_.ended(success);
  branches_.ended(success, values_.unknown_variables(words),
                  is_certain ? name_tested_as_empty(command, values_) : "");
}

RunArguments ScriptReader::arguments() {
  if (launches_.size() == 0) read_functions_without_a_call();
  return launches_.arguments(world_, ended_);
}

RunArguments read_run_script(std::string_view text, const RunVariables& set) {
  ScriptReader reader(set);
  reader.read(text, 1, 0);
  RunArguments run = reader.arguments();
  run.kind = RunFileKind::script;
  if (ends_as_on_windows(text)) run.notes.push_back(kEndsAsOnWindows);
  constexpr const char* kConnections = "CUDA_DEVICE_MAX_CONNECTIONS";
  const auto handed_on =
      run.environment.contains(kConnections) ? std::nullopt : value_handed_on(text, kConnections);
  if (handed_on) run.environment[kConnections] = *handed_on;
  return run;
}

}  // namespace verify
