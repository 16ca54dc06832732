#include "verify/run_arguments/shell_jobs.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace verify {

namespace {

/// A command, or all that stands between the keywords that begin and end a block.
struct Item {
  std::size_t begin = 0;
  std::size_t end = 0;  // its last command
};

bool begins_block(ShellKeyword keyword) {
  using enum ShellKeyword;
  return keyword == if_begins || keyword == case_begins || keyword == loop_begins ||
         keyword == subshell_begins || keyword == group_begins || keyword == function_begins;
}

bool ends_block(ShellKeyword keyword) {
  using enum ShellKeyword;
  return keyword == if_ends || keyword == case_ends || keyword == loop_ends || keyword == subshell_ends ||
         keyword == group_ends || keyword == function_ends;
}

/// Whether a word is a command that may change variables, arguments or what the shell runs next.
bool changes_shell(std::string_view word) {
  constexpr std::array<std::string_view, 17> kNames = {
      "read", "mapfile",   "readarray", "shift", "set",    "unset",    "let",   "eval",   "exit",
      "((",   "printf -v", "source",    ".",     "return", "continue", "break", "getopts"};
  return std::ranges::find(kNames, word) != kNames.end();
}

class Jobs {
 public:
  explicit Jobs(std::vector<ShellCommand> commands) : commands_(std::move(commands)) {
    for (const ShellCommand& command : commands_) {
      if (command.keyword == ShellKeyword::function_begins) functions_.insert(name_of(command));
    }
    changes_.push_back(0);
    for (const ShellCommand& command : commands_)
      changes_.push_back(changes_.back() + (may_change(command) ? 1 : 0));
  }

  std::vector<ShellCommand> with_shells() {
    begins_.resize(commands_.size());
    ends_.resize(commands_.size());
    lists_.emplace_back();
    std::vector<std::size_t> open;
    for (std::size_t i = 0; i < commands_.size(); ++i) {
      const ShellKeyword keyword = commands_[i].keyword;
      if (begins_block(keyword)) {
        open.push_back(i);
        lists_.emplace_back();
      } else if (ends_block(keyword) && !open.empty()) {
        end_list();
        lists_.pop_back();
        add({open.back(), i});
        open.pop_back();
      } else if (keyword == ShellKeyword::none) {
        add({i, i});
      } else {
        end_list();
      }
    }
    while (!lists_.empty()) {
      end_list();
      lists_.pop_back();
    }
    return commands_with_blocks();
  }

 private:
  /// Returns the name of a command or a function; "printf -v" where it is that.
  static std::string name_of(const ShellCommand& command) {
    if (command.words.empty()) return "";
    std::string name;
    for (const ShellPart& part : command.words.front().parts)
      name += part.kind == ShellPart::Kind::literal ? part.text : part.source;
    const bool has_option = command.words.size() > 1 && is_literal(command.words[1], "-v");
    return name == "printf" && has_option ? "printf -v" : name;
  }

  bool may_change(const ShellCommand& command) const {
    const std::string name = name_of(command);
    const bool assigns = command.words.empty() && !command.assignments.empty();
    return assigns || !command.declared.empty() || !command.loop_variable.empty() || !command.steps.empty() ||
           changes_shell(name) || functions_.contains(name);
  }

  /// Whether an item needs a shell of its own: it may change something, and is in no brackets.
  bool needs_shell(const Item& item) const {
    const bool is_subshell = commands_[item.begin].keyword == ShellKeyword::subshell_begins;
    return !is_subshell && changes_[item.end + 1] > changes_[item.begin];
  }

  /// Adds an item to the list that it belongs to, which ends where an item stands behind no sign.
  void add(const Item& item) {
    if (commands_[item.begin].chain.empty()) end_list();
    lists_.back().push_back(item);
    if (commands_[item.end].is_background) end_list();
  }

  void end_list() {
    const std::vector<Item> list = std::exchange(lists_.back(), {});
    if (list.empty()) return;
    const bool is_background = commands_[list.back().end].is_background;
    if (is_background && std::ranges::any_of(list, [&](const Item& item) { return needs_shell(item); }))
      put_around({list.front().begin, list.back().end}, ShellKeyword::subshell_begins);
    for (std::size_t i = 0; i < list.size();) {
      std::size_t end = i + 1;
      while (end < list.size() && commands_[list[end].begin].chain == "|") ++end;
      read_pipeline(
          {list.begin() + static_cast<std::ptrdiff_t>(i), list.begin() + static_cast<std::ptrdiff_t>(end)});
      i = end;
    }
  }

  void read_pipeline(const std::vector<Item>& items) {
    if (items.size() < 2) return;
    if (!commands_[items.front().begin].chain.empty())
      put_around({items.front().begin, items.back().end}, ShellKeyword::group_begins);
    for (const Item& item : items) {
      if (needs_shell(item)) put_around(item, ShellKeyword::subshell_begins);
    }
  }

  void put_around(const Item& item, ShellKeyword begins) {
    begins_[item.begin].push_back(begins);
    ends_[item.end].push_back(begins == ShellKeyword::group_begins ? ShellKeyword::group_ends
                                                                   : ShellKeyword::subshell_ends);
  }

  std::vector<ShellCommand> commands_with_blocks() {
    std::vector<ShellCommand> all;
    const auto add_keyword = [&](ShellKeyword keyword, std::string chain, int line) {
      all.emplace_back();
      all.back().keyword = keyword;
      all.back().chain = std::move(chain);
      all.back().line = line;
    };
    for (std::size_t i = 0; i < commands_.size(); ++i) {
      ShellCommand& command = commands_[i];
      for (const ShellKeyword keyword : begins_[i]) {
        add_keyword(keyword, command.chain, command.line);
        // The input of a command that is piped is not known; by other signs the block runs or does not.
        if (command.chain != "|") command.chain.clear();
      }
      const int line = command.line;
      all.push_back(std::move(command));
      for (auto keyword = ends_[i].rbegin(); keyword != ends_[i].rend(); ++keyword)
        add_keyword(*keyword, "", line);
    }
    return all;
  }

  std::vector<ShellCommand> commands_;
  std::set<std::string> functions_;
  std::vector<std::size_t> changes_;               // commands before this one that may change something
  std::vector<std::vector<Item>> lists_;           // those that are open, one inside of the other
  std::vector<std::vector<ShellKeyword>> begins_;  // what begins before a command
  std::vector<std::vector<ShellKeyword>> ends_;    // what ends behind it, from the outermost one on
};

}  // namespace

std::vector<ShellCommand> with_shells_of_jobs(std::vector<ShellCommand> commands) {
  return Jobs(std::move(commands)).with_shells();
}

}  // namespace verify
