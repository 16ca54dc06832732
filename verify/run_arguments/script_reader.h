#pragma once

/// The reader of a launch script (run_script.h): what its commands do to variables, and which of them run.
/// Its functions stand in files by what they are about: run_script.cpp the commands in their order, functions
/// and assignments, script_loops.cpp loops, script_builtins.cpp the commands of the shell itself, and
/// script_nested.cpp texts inside of a script and the commands that start something.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "verify/run_arguments/launch_world.h"
#include "verify/run_arguments/run_arguments.h"
#include "verify/run_arguments/script_launches.h"
#include "verify/run_arguments/shell_branches.h"
#include "verify/run_arguments/shell_getopts.h"
#include "verify/run_arguments/shell_input.h"
#include "verify/run_arguments/shell_values.h"
#include "verify/run_arguments/shell_words.h"

namespace verify {

inline constexpr int kMostScriptNesting = 8;  // of here-documents, of `bash -c` and of calls

/// Returns the index of the keyword that ends what begins here, or the number of commands.
std::size_t end_of(std::span<const ShellCommand> commands, std::size_t begin, ShellKeyword begins,
                   ShellKeyword ends);

/// Whether a command is `mapfile` or `readarray`.
bool reads_array(std::string_view word);

/// Whether a word of `set`, or of the command that starts a shell, is an option, as -euo and +x are.
bool is_option_of_shell(std::string_view word);

/// Whether a shell with these options, behind which other words may stand, ends with the first command that
/// fails. `before` is what holds without them.
bool ends_by_failure_behind(std::span<const std::string> words, bool before);

class ScriptReader {
 public:
  explicit ScriptReader(const RunVariables& set) : values_(set), launches_(values_) {}
  ScriptReader(const ScriptReader&) = delete;  // its launches hold its values
  ScriptReader& operator=(const ScriptReader&) = delete;

  void read(std::string_view text, int first_line, int depth);
  RunArguments arguments();

 private:
  using Fields = std::vector<ShellField>;
  using Commands = std::span<const ShellCommand>;

  void read(Commands commands, int depth);
  /// A loop, and the values of its list.
  struct Loop {
    const ShellCommand* begin = nullptr;
    Commands condition;
    Commands body;
    std::optional<Fields> list;
  };
  static bool is_asked(Commands commands, std::size_t at);
  void follow_groups(Commands commands, std::size_t at);
  std::optional<Fields> list_of_loop(const ShellCommand& loop);
  static bool is_endless(Commands condition);
  static bool has_break(Commands body);
  bool reads_loop(Commands commands, std::size_t begin, int depth);
  void read_rounds(const Loop& loop, int depth);
  std::optional<bool> begins_round(const Loop& loop, std::size_t round, int depth);
  std::optional<bool> assign_expression(const std::string& expression, int line, ShellRuns runs);
  void read_builtin(const ShellCommand& command, const Fields& words, ShellRuns runs);
  std::optional<bool> success_of(const ShellCommand& command, const Fields& words);
  std::optional<bool> success_of_grep(const ShellCommand& command, const Fields& words);
  void follow_pipe(Commands commands, std::size_t at);
  bool open_input(const ShellCommand& first, const ShellCommand* last);
  void read_input(const ShellCommand& command, const Fields& words, bool is_certain);
  void read_array(const ShellCommand& command, const Fields& words, bool is_certain);
  void read_option(const ShellCommand& command, const Fields& words, bool is_certain);
  std::optional<ReadText>* input_of(const ShellCommand& command, std::optional<ReadText>& own);
  std::optional<std::string> own_input(const ShellCommand& command);
  void read(const ShellCommand& command, int depth);
  void read(const ShellCommand& command, const Fields& words, ShellRuns runs, int depth);
  void read_allocation(const Fields& words);
  void read_documents(const ShellCommand& command, const Fields& words, int depth);
  void assign(const ShellCommand& command, ShellRuns runs);
  void assign(const ShellAssignment& assignment, bool is_certain);
  void assign_declared(const ShellCommand& command, ShellRuns runs);
  void assign_by_arithmetic(const ShellCommand& command, const Fields& words, ShellRuns runs);
  bool calls_function(const ShellCommand& command, const Fields& words, ShellRuns runs, int depth);
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
  std::vector<std::string> given_to_command_;    // the variables that stand before a command that is read
  int open_documents_ = 0;                       // here-documents that are read
  int open_reads_ = 0;                           // lists of commands that are read, one inside of the other
  ScriptEnd ended_;                              // of the script
  int open_calls_ = 0;                           // functions that are read where they are called
  bool has_returned_ = false;                    // the function that is read has come to its `return`
  std::int64_t leaves_ = 0;                      // loops that a `break` or a `continue` leaves
  bool continues_ = false;                       // the last one of them goes on with its next round
  std::vector<std::optional<ReadText>> inputs_;  // of the blocks that have one of their own; none: unknown
  OptionPlace option_place_;                     // of `getopts`
  std::optional<std::string> piped_;             // what the next command gets from a pipe; none: not known
  bool is_pipe_negated_ = false;                 // a "!" stands before that pipe
  std::optional<bool> input_success_;            // of the last `read` or `getopts`; none: it is not known
  std::optional<bool> arithmetic_success_;       // of the last ((...)) or `let` that assigns; none: the same
  bool ends_by_failure_ = false;                 // `set -e`
  bool has_certainly_failed_ = false;            // the last command has
  int conditions_ = 0;              // those around the next command: no failure in them ends the script
  std::vector<bool> asked_groups_;  // groups that are open: whether && or || stands behind each

  struct Function {
    ShellValues::Commands commands;
    bool is_called = false;
  };
  std::map<std::string, Function> functions_;
  std::map<std::string, int> called_;  // commands that are no functions yet, with the line of the first one
  std::size_t commands_ = 0;           // that were read
};

}  // namespace verify
