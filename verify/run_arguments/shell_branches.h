#pragma once

/// Which commands of a shell script run, as far as the conditions of its branches are known.
///
/// Calls   `runs` is asked of every command in its order, and `ended` is told of each that runs or may run.
/// Exact   A command of a branch that is not taken does not run. In a loop whose list is not known
///         (run_script.h), or in a branch whose condition is not known, a command may run. The same holds
///         behind && and ||, also for a group { ... } or a subshell.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "verify/run_arguments/shell_condition.h"

namespace verify {

enum class ShellRuns { no, maybe, yes };

class ShellBranches {
 public:
  /// Follows a keyword.
  void follow(const ShellCommand& keyword, ShellValues& values);

  /// Enters commands that run as another one does: those of a function or of a text.
  void enter(ShellRuns runs) { open_.push_back({.kind = ShellKeyword::function_begins, .now = runs}); }

  /// The commands behind this one in the function, or in the text, that was entered last may not run.
  void may_return();

  /// Enters a loop whose rounds are read one by one, as far as it is known that they run, and leaves it.
  void enter_loop();
  void leave_loop();
  /// Leaves the branches that a round of such a loop was in when it ended with `continue`.
  void next_round();
  /// The rest of so many loops may not run: `break` or `continue` may.
  void may_leave(std::int64_t loops);

  /// How many such loops the next command is in, since a function or a text was entered.
  std::int64_t known_loops() const;
  /// Whether the command that was read last has succeeded; none: it is not known.
  std::optional<bool> succeeded() const { return success_; }

  /// Whether the branches around the next command are taken.
  ShellRuns around() const;
  /// Whether a command runs, by the branches around it and by the command before it.
  ShellRuns runs(const ShellCommand& command) const;
  /// Tells whether the command that was read last has succeeded, where that is known, and otherwise the
  /// variables that would tell, and that of which it asks whether it is empty.
  void ended(std::optional<bool> success, std::vector<std::string> asked = {}, std::string tested = "");
  /// Whether a command runs just where this variable, to which the file gives no value, is empty: what it
  /// assigns to the variable is a default.
  bool gives_default(const ShellCommand& command, const std::string& name) const;
  /// Returns the first variable that would tell whether the branches around the next command are taken; ""
  /// where no variable would, as in a loop.
  std::string asked() const;

 private:
  struct Branch {
    ShellKeyword kind = ShellKeyword::none;  // one of those that begin something
    ShellRuns now = ShellRuns::maybe;        // whether the commands that follow run
    ShellRuns before = ShellRuns::no;        // whether an earlier branch of it was taken
    ShellRuns until_last = ShellRuns::no;    // of a case: the same, without the last pattern
    ShellRuns taken = ShellRuns::no;         // of a case: by a pattern whose commands end with ";;&"
    ShellWord subject;                       // of a case
    std::vector<std::string> asked;          // variables that its conditions ask for
    std::string tested;                      // the variable that is empty where it runs
    bool has_known_rounds = false;           // of a loop
  };

  bool is_in_loop() const;
  void take(Branch& branch, std::optional<bool> condition);
  void begin_pattern(Branch& branch, const ShellCommand& pattern, ShellValues& values);
  void close(ShellKeyword kind);
  void leave_group(ShellKeyword kind);

  std::vector<Branch> open_;
  std::optional<bool> success_;
  std::vector<std::string> asked_;  // for success_
  std::string tested_;              // is empty where the command succeeded
};

}  // namespace verify
