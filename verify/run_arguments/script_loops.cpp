// Loops of a script, round by round.

#include <algorithm>
#include <cstddef>
#include <fmt/format.h>
#include <utility>

#include "verify/run_arguments/script_reader.h"
#include "verify/run_arguments/shell_input.h"
#include "verify/run_arguments/shell_word_reader.h"

namespace verify {

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
    if (without_blanks(loop.steps[1]).empty() && !has_break(parts.body)) return false;
    assign_expression(loop.steps[0], loop.line, ShellRuns::yes);
  } else if (loop.loop == "for" || loop.loop == "select" ||
             (is_endless(parts.condition) && !has_break(parts.body))) {
    return false;
  }
  const bool has_input = open_input(loop, end < commands.size() ? &commands[end] : nullptr);
  const int conditions = conditions_;
  const std::size_t asked_groups = asked_groups_.size();
  branches_.enter_loop();
  read_rounds(parts, depth);
  branches_.leave_loop();
  conditions_ = conditions;  // `break` and `continue` leave what they stand in
  asked_groups_.resize(asked_groups);
  if (has_input) inputs_.pop_back();
  return true;
}

/// Begins the text that the commands of a block or of a function read, where it has one of its own. `first`
/// and `last` are the commands at which it begins and ends. Returns whether it has one.
bool ScriptReader::open_input(const ShellCommand& first, const ShellCommand* last) {
  const bool is_piped = first.chain == "|";
  const bool has_own =
      last != nullptr && (last->input != nullptr || !last->documents.empty() || last->reads_file);
  if (!is_piped && !has_own) return false;
  inputs_.emplace_back();
  if (!has_own) return true;
  std::optional<std::string> text = own_input(*last);
  if (!text || text->find(kUnknownBegin) != std::string::npos) return true;
  values_.charge(text->size(), first.line);
  inputs_.back() = ReadText{std::move(*text)};
  return true;
}

/// Whether the condition of a loop is `true` or `:`.
bool ScriptReader::is_endless(Commands condition) {
  return condition.size() == 1 && condition[0].words.size() == 1 &&
         (is_literal(condition[0].words[0], "true") || is_literal(condition[0].words[0], ":"));
}

/// Whether a `break` is among the commands of a loop, which may be one of a loop inside.
bool ScriptReader::has_break(Commands body) {
  return std::ranges::any_of(body, [](const ShellCommand& command) {
    return !command.words.empty() && is_literal(command.words.front(), "break");
  });
}

void ScriptReader::read_rounds(const Loop& loop, int depth) {
  constexpr std::size_t kMostRounds = 10'000;
  constexpr std::size_t kMostLaunches = 100;  // of a loop that starts the training again and again
  const std::size_t launches = launches_.size();
  for (std::size_t round = 0;; ++round) {
    if (round == kMostRounds || launches_.size() > launches + kMostLaunches) branches_.may_leave(1);
    bool is_last = branches_.around() != ShellRuns::yes && !loop.list;
    const std::optional<bool> goes_on = begins_round(loop, round, depth);
    if (goes_on == false || ended_.line != 0 || has_returned_) return;
    if (!goes_on) branches_.may_leave(1);
    is_last = is_last || (!goes_on && !loop.list);
    read(loop.body, depth);
    if (ended_.line != 0 || has_returned_) return;
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
    const bool is_empty = without_blanks(begin.steps[1]).empty();
    const std::string source = is_empty ? "1" : fmt::format("$(({}))", begin.steps[1]);
    const ShellWord condition = ShellWordReader(source, begin.line, 0).whole_word(true);
    if (const auto number = whole_number(values_.whole(condition).text)) truth = *number != 0;
  } else {
    ++conditions_;
    read(loop.condition, depth);
    --conditions_;
    truth = branches_.succeeded();
    if (truth && begin.loop == "until") truth = !*truth;
  }
  return branches_.around() == ShellRuns::yes ? truth : std::nullopt;
}

}  // namespace verify
