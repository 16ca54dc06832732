#include "verify/run_arguments/shell_branches.h"

#include <algorithm>
#include <utility>

namespace verify {

namespace {

ShellRuns runs_if(std::optional<bool> condition) {
  if (!condition) return ShellRuns::maybe;
  return *condition ? ShellRuns::yes : ShellRuns::no;
}

ShellRuns opposite(ShellRuns runs) {
  if (runs == ShellRuns::maybe) return runs;
  return runs == ShellRuns::yes ? ShellRuns::no : ShellRuns::yes;
}

}  // namespace

bool ShellBranches::is_in_loop() const {
  return std::ranges::any_of(open_, [](const Branch& branch) {
    const bool is_known = branch.has_known_rounds && branch.now == ShellRuns::yes;
    return branch.kind == ShellKeyword::loop_begins && !is_known;
  });
}

void ShellBranches::may_return() {
  const auto function = std::find_if(open_.rbegin(), open_.rend(), [](const Branch& branch) {
    return branch.kind == ShellKeyword::function_begins;
  });
  if (function != open_.rend()) function->now = std::min(function->now, ShellRuns::maybe);
}

/// Enters the branch whose condition this is, unless an earlier one was taken. In a loop it is the condition
/// of the first round alone.
void ShellBranches::take(Branch& branch, std::optional<bool> condition) {
  const ShellRuns runs = is_in_loop() ? ShellRuns::maybe : runs_if(condition);
  branch.now = std::min(opposite(branch.before), runs);
  branch.before = std::max(branch.before, runs);
  if (around() == ShellRuns::yes) ended(true);  // as a branch without commands does
}

/// Enters the commands of a pattern. Behind ";&" they run where those before have run; behind ";;&" the
/// pattern is asked as if those before had not.
void ShellBranches::begin_pattern(Branch& branch, const ShellCommand& pattern, ShellValues& values) {
  const ShellRuns last = branch.now, taken = branch.before;
  if (pattern.chain == ";;&") branch.before = branch.until_last;
  branch.until_last = branch.before;
  take(branch, shell_pattern_fits(pattern.words, branch.subject, values));
  if (pattern.chain == ";&") branch.now = std::max(branch.now, last);
  if (pattern.chain == ";;&") branch.taken = std::max(branch.taken, taken);
}

/// What ends has the success of the last command of the branch that was taken; it succeeds where none was.
/// It leaves the success of the command before it where it does not run itself.
void ShellBranches::close(ShellKeyword kind) {
  if (open_.empty() || open_.back().kind != kind) return ended(std::nullopt);
  Branch branch = std::move(open_.back());
  open_.pop_back();
  if (around() == ShellRuns::no) return;
  branch.before = std::max(branch.before, branch.taken);
  const bool is_loop = kind == ShellKeyword::loop_begins;
  if (is_loop || branch.before == ShellRuns::maybe) return ended(std::nullopt);
  if (branch.before == ShellRuns::no) ended(true);
}

/// A group that has run has the success of its last command; one that has not leaves that of the command
/// before it.
void ShellBranches::leave_group(ShellKeyword kind) {
  if (open_.empty() || open_.back().kind != kind) return;
  const Branch group = std::move(open_.back());
  open_.pop_back();
  if (group.now == ShellRuns::maybe) ended(std::nullopt, group.asked);
}

void ShellBranches::follow(const ShellCommand& keyword, ShellValues& values) {
  using enum ShellKeyword;
  const bool is_of_if = !open_.empty() && open_.back().kind == if_begins;
  switch (keyword.keyword) {
    case none:
    case function_begins:
    case function_ends:
    case body_begins:
      return;
    case group_begins:
    case subshell_begins:
      open_.push_back({.kind = keyword.keyword, .now = runs(keyword)});
      open_.back().asked = asked_;
      if (keyword.chain == "&&") open_.back().tested = tested_;
      return;
    case group_ends:
      return leave_group(group_begins);
    case subshell_ends:
      return leave_group(subshell_begins);
    case if_begins:
      open_.push_back({.kind = if_begins, .now = ShellRuns::yes});
      return;
    case condition_ends:
      if (!is_of_if) return;
      open_.back().tested = open_.back().before == ShellRuns::no ? tested_ : "";
      open_.back().asked.insert(open_.back().asked.end(), asked_.begin(), asked_.end());
      return take(open_.back(), success_);
    case elif_begins:
      if (is_of_if) open_.back().now = opposite(open_.back().before);
      if (is_of_if) open_.back().tested.clear();
      return;
    case else_begins:
      if (is_of_if) take(open_.back(), true);
      if (is_of_if) open_.back().tested.clear();
      return;
    case if_ends:
      return close(if_begins);
    case case_begins:
      open_.push_back({.kind = case_begins, .now = ShellRuns::no});
      if (keyword.words.empty()) return;
      open_.back().subject = keyword.words.front();
      open_.back().asked = values.unknown_variables(values.expand(keyword.words));
      return;
    case pattern_begins:
      if (open_.empty() || open_.back().kind != case_begins) return;
      return begin_pattern(open_.back(), keyword, values);
    case case_ends:
      return close(case_begins);
    case loop_begins:
      open_.push_back({.kind = loop_begins, .now = ShellRuns::maybe});
      return;
    case loop_ends:
      return close(loop_begins);
  }
}

void ShellBranches::ended(std::optional<bool> success, std::vector<std::string> asked, std::string tested) {
  success_ = success;
  asked_ = std::move(asked);
  tested_ = std::move(tested);
}

bool ShellBranches::gives_default(const ShellCommand& command, const std::string& name) const {
  const bool is_chained = command.chain == "&&" && tested_ == name;
  bool is_tested = is_chained;
  for (const Branch& branch : open_) {
    if (branch.now == ShellRuns::no || (branch.now == ShellRuns::maybe && branch.tested != name))
      return false;
    is_tested = is_tested || branch.tested == name;
  }
  return is_tested && (command.chain.empty() || is_chained);
}

std::string ShellBranches::asked() const {
  if (is_in_loop()) return "";
  for (const Branch& branch : open_) {
    if (branch.now == ShellRuns::maybe && !branch.asked.empty()) return branch.asked.front();
  }
  return "";
}

void ShellBranches::enter_loop() {
  open_.push_back({.kind = ShellKeyword::loop_begins, .now = ShellRuns::yes});
  open_.back().has_known_rounds = true;
}

void ShellBranches::leave_loop() {
  const auto loop = std::find_if(open_.rbegin(), open_.rend(), [](const Branch& branch) {
    return branch.kind == ShellKeyword::loop_begins && branch.has_known_rounds;
  });
  if (loop != open_.rend()) open_.erase(loop.base() - 1, open_.end());
  ended(std::nullopt);
}

void ShellBranches::may_leave(std::int64_t loops) {
  for (auto branch = open_.rbegin(); branch != open_.rend() && loops > 0; ++branch) {
    if (branch->kind != ShellKeyword::loop_begins) continue;
    branch->now = std::min(branch->now, ShellRuns::maybe);
    --loops;
  }
}

std::int64_t ShellBranches::known_loops() const {
  std::int64_t loops = 0;
  for (auto branch = open_.rbegin(); branch != open_.rend(); ++branch) {
    if (branch->kind == ShellKeyword::function_begins) break;
    loops += branch->kind == ShellKeyword::loop_begins && branch->has_known_rounds ? 1 : 0;
  }
  return loops;
}

void ShellBranches::next_round() {
  while (!open_.empty() && !(open_.back().kind == ShellKeyword::loop_begins && open_.back().has_known_rounds))
    open_.pop_back();
}

ShellRuns ShellBranches::around() const {
  ShellRuns runs = ShellRuns::yes;
  for (const Branch& branch : open_) runs = std::min(runs, branch.now);
  return runs;
}

ShellRuns ShellBranches::runs(const ShellCommand& command) const {
  const ShellRuns around = this->around();
  if (command.chain == "&&") return std::min(around, runs_if(success_));
  if (command.chain == "||") return std::min(around, opposite(runs_if(success_)));
  return around;
}

}  // namespace verify
