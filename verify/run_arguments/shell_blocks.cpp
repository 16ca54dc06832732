#include "verify/run_arguments/shell_blocks.h"

#include <algorithm>
#include <fmt/format.h>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/error.h"

namespace verify {

namespace {

using enum ShellKeyword;

/// The words of a kind of block. The second one stands between the begin and the end.
struct BlockRow {
  ShellKeyword begins;
  ShellKeyword goes_on;
  ShellKeyword ends;
  std::string_view name;
  std::string_view named;        // where it is spoken of again
  std::string_view second_word;  // "" for a kind that needs none
  std::string_view last_word;
};
constexpr BlockRow kBlocks[] = {
    {if_begins, condition_ends, if_ends, "an `if`", "the `if`", "then", "fi"},
    {loop_begins, body_begins, loop_ends, "a loop", "the loop", "do", "done"},
    {case_begins, pattern_begins, case_ends, "a `case`", "the `case`", "", "esac"},
    {group_begins, none, group_ends, "a `{`", "the group", "", "}"},
    {function_begins, none, function_ends, "the `{` of a function", "the function", "", "}"},
    {subshell_begins, none, subshell_ends, "a '('", "the subshell", "", ")"},
};

const BlockRow& row_of(ShellKeyword begins) { return *std::ranges::find(kBlocks, begins, &BlockRow::begins); }

struct OpenBlock {
  const BlockRow* row;
  int line;
  bool goes_on = false;     // its second word was there
  int line_of_bracket = 0;  // of a `case`: a ')' that closes nothing
  int line_of_else_if = 0;  // an `if` that stands behind an `else` of this block, in the same line
};

[[noreturn]] void refuse_block(int line, std::string numbers, std::string rule, std::string hint) {
  sim::refuse({.code = "script_syntax",
               .option = fmt::format("line {}", line),
               .numbers = std::move(numbers),
               .rule = std::move(rule),
               .hint = std::move(hint)});
}

[[noreturn]] void refuse_without_second_word(const OpenBlock& block) {
  const BlockRow& row = *block.row;
  refuse_block(block.line, fmt::format("{} without its `{}`", row.name, row.second_word),
               "a shell runs nothing of a script with such a block",
               fmt::format("`{}` before the commands of {}", row.second_word, row.named));
}

[[noreturn]] void refuse_pattern(const OpenBlock& block) {
  refuse_block(
      block.line_of_bracket, "a pattern of a `case` behind commands that do not end with `;;`",
      "the commands of each pattern but the last one end with `;;`: a shell runs nothing of this script",
      "`;;` behind the last command before the pattern");
}

[[noreturn]] void refuse_without_end(const OpenBlock& block) {
  const BlockRow& row = *block.row;
  const std::string hint =
      block.line_of_else_if != 0
          ? fmt::format("`elif` in the place of the `else if` of line {}, or one more `fi`",
                        block.line_of_else_if)
          : fmt::format("`{}` behind the last command of {}", row.last_word, row.named);
  refuse_block(block.line, fmt::format("{} without its `{}`", row.name, row.last_word),
               "a shell runs nothing of a block that does not end", hint);
}

[[noreturn]] void refuse_without_begin(const ShellCommand& end, const BlockRow& row, const OpenBlock* inner) {
  const std::string numbers = fmt::format("`{}` without {}", row.last_word, row.name);
  if (inner != nullptr) {
    refuse_block(
        end.line,
        fmt::format("`{}` where {} of line {} has not ended", row.last_word, inner->row->name, inner->line),
        "a shell runs nothing of a script whose blocks do not end in the order in which they begin",
        fmt::format("`{}` before it", inner->row->last_word));
  }
  refuse_block(end.line, numbers,
               "a shell runs nothing of a script with an end of a block that does not begin",
               fmt::format("the script without this `{}`", row.last_word));
}

class Blocks {
 public:
  explicit Blocks(bool begins_as_script) : begins_as_script_(begins_as_script) {}

  void follow(const ShellCommand& command, bool is_behind_else);
  void require_ends() const;

 private:
  void end(const ShellCommand& command, const BlockRow& row);

  bool begins_as_script_;
  bool is_behind_for_ = false;  // the command before is the head of a `for`
  std::vector<OpenBlock> open_;
};

void Blocks::follow(const ShellCommand& command, bool is_behind_else) {
  const bool is_behind_for = std::exchange(is_behind_for_, command.loop == "for");
  if (command.keyword == none) return;
  if (command.keyword == group_begins && is_behind_for && !open_.empty() && !open_.back().goes_on) {
    open_.back().row = &row_of(group_begins);  // the body of a `for` may stand in braces
    return;
  }
  if (is_behind_else && !open_.empty()) open_.back().line_of_else_if = command.line;
  for (const BlockRow& row : kBlocks) {
    if (command.keyword == row.begins) return open_.push_back({.row = &row, .line = command.line});
    if (command.keyword == row.ends) return end(command, row);
    const bool goes_on = command.keyword == row.goes_on && !open_.empty() && open_.back().row == &row;
    if (goes_on) open_.back().goes_on = true;
  }
}

void Blocks::end(const ShellCommand& command, const BlockRow& row) {
  if (row.ends == function_ends && command.line == kLineOfNoBrace) return;
  const bool is_last = !open_.empty() && open_.back().row == &row;
  if (is_last) {
    const OpenBlock& block = open_.back();
    const bool has_second = row.second_word.empty() || block.goes_on;
    if (!has_second && (begins_as_script_ || row.begins == if_begins)) refuse_without_second_word(block);
    if (block.line_of_bracket != 0 && begins_as_script_) refuse_pattern(block);
    open_.pop_back();
    return;
  }
  const bool is_in_case =
      row.ends == subshell_ends && !open_.empty() && open_.back().row->begins == case_begins;
  if (is_in_case && open_.back().line_of_bracket == 0) open_.back().line_of_bracket = command.line;
  if (is_in_case || !begins_as_script_) return;
  refuse_without_begin(command, row, open_.empty() ? nullptr : &open_.back());
}

/// Of blocks inside of each other, the outermost one is told, in which the reader finds the others.
void Blocks::require_ends() const {
  const auto counts = [&](const OpenBlock& block) {
    return begins_as_script_ || (block.goes_on && block.row->begins != case_begins);
  };
  const auto found = std::ranges::find_if(open_, counts);
  if (found != open_.end()) refuse_without_end(*found);
}

}  // namespace

void require_whole_blocks(const ShellScript& script, bool begins_as_script) {
  Blocks blocks(begins_as_script);
  int line_of_else = 0;  // of the last command, where it is an `else`
  for (const ShellCommand& command : script.commands) {
    const bool is_behind_else = command.keyword == if_begins && command.line == line_of_else;
    blocks.follow(command, is_behind_else);
    line_of_else = command.keyword == else_begins ? command.line : 0;
  }
  blocks.require_ends();
}

}  // namespace verify
