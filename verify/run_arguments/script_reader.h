#pragma once

/// The reader of a launch script (run_script.h): what its commands do to variables, and which of them run.
/// Its functions stand in files by what they are about: script_reader.cpp lists, branches, loops and
/// functions, script_builtins.cpp the commands of the shell itself, and script_children.cpp texts inside of a
/// script, other scripts, and the commands that start something.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "verify/run_arguments/launch_world.h"
#include "verify/run_arguments/run_arguments.h"
#include "verify/run_arguments/script_files.h"
#include "verify/run_arguments/script_launches.h"
#include "verify/run_arguments/shell_values.h"
#include "verify/run_arguments/shell_words.h"

namespace verify {

class ScriptReader {
 public:
  /// `path` is that of the script; "" for a text that is no file.
  ScriptReader(const RunVariables& set, const std::string& path);
  ScriptReader(const ScriptReader&) = delete;  // its launches hold its values
  ScriptReader& operator=(const ScriptReader&) = delete;

  void read(std::string_view text);
  RunArguments arguments();

 private:
  using Step = std::function<void()>;
  using Words = ShellFields;

  /// Something that `break`, `return` or `exit` leaves.
  struct Target {
    enum class Kind { loop, call, shell };
    Kind kind = Kind::loop;
    std::vector<ShellState> leaves;
    std::vector<ShellState> continues;
  };
  struct Loop {
    int line = 0;
    std::function<ShellStatus()> begins_round;
    const ShellList* body = nullptr;
    Step step = [] {};
    bool is_of_list = false;
  };
  /// Commands that may run.
  struct Path {
    Step run = [] {};
    const ShellList* commands = nullptr;
  };

  void run(const ShellList& commands);
  void run_chained(const ShellCommand& command);
  void run(const ShellCommand& command);
  void run_kind(const ShellCommand& command);
  void run_redirected(const ShellCommand& command);
  void end_by_failure(const ShellCommand& command);
  void leave_unassigned(const ShellList& commands);
  ShellStatus asked(const ShellList& condition);
  void decide(const ShellStatus& status, const Path& yes, const Path& no);
  void run_both(const ShellStatus& status, const Path& yes, const Path& no);
  void settle(const std::set<std::string>& names, const ShellState& before, const ShellState& path, int line);
  void join(std::vector<ShellState> ends, bool has_exited, const ShellState& before,
            const std::string& asked);
  void require(const std::set<std::string>& names, int line);
  void run_branch(const ShellCommand& branch);
  void run_choice(const ShellCommand& choice, std::size_t first, const ShellField& subject);
  void run_choice_body(const ShellCommand& choice, std::size_t at, const ShellField& subject);
  void run_loop(const ShellCommand& loop);
  void run_rounds(const Loop& loop);
  void run_round(const Loop& loop);
  void run_unknown_rounds(const Loop& loop);
  void in_shell(const Step& commands);
  void run_pipeline(const ShellCommand& pipeline);
  void run_arithmetic(const ShellCommand& command);
  void run_simple(const ShellCommand& command);
  void enter(const Step& commands, std::optional<ShellArguments> arguments);
  void call(const std::shared_ptr<const ShellList>& body, const ShellCommand& command, const Words& words);
  bool leaves(Target::Kind kind, std::int64_t levels, bool continues);
  void run_words(const ShellCommand& command, const Words& words);

  using Builtin = void (ScriptReader::*)(const ShellCommand&, const Words&);
  static Builtin builtin(std::string_view name);
  void succeed(const ShellCommand& /*command*/, const Words& /*words*/) {}
  void fail(const ShellCommand& command, const Words& words);
  void test(const ShellCommand& command, const Words& words);
  void echo(const ShellCommand& command, const Words& words);
  void print_path(const ShellCommand& command, const Words& words);
  void print_input(const ShellCommand& command, const Words& words);
  void change_folder(const ShellCommand& command, const Words& words);
  void declare(const ShellCommand& command, const Words& words);
  void unset(const ShellCommand& command, const Words& words);
  void shift(const ShellCommand& command, const Words& words);
  void set(const ShellCommand& command, const Words& words);
  void forget_read(const ShellCommand& command, const Words& words);
  void compute(const ShellCommand& command, const Words& words);
  void evaluate(const ShellCommand& command, const Words& words);
  void source(const ShellCommand& command, const Words& words);
  void exit(const ShellCommand& command, const Words& words);
  void leave(const ShellCommand& command, const Words& words);
  void declare(const std::string& name, const std::string& word, const std::string& options, bool is_assigned,
               int line);
  void print(const std::optional<std::string>& text, const std::string& asked);
  std::optional<std::string> input_of(const ShellCommand& command);

  /// A file that is read.
  struct File {
    std::string path;
    ShellScript script;
  };
  void read_allocation(const Words& words);
  void run_script(const ShellScript& script, bool has_directives);
  void run_child(const Step& commands, const Words& launcher);
  void run_text(std::string_view text, int line, const Words& launcher, bool is_document);
  std::optional<File> file(const ShellField& written, int line);
  bool starts_file(const ShellCommand& command, const Words& words);
  bool starts_text(const Words& words);
  void start(const ShellCommand& command, const Words& words);
  void read_what_is_not_started();

  ShellValues values_;
  LaunchWorld world_;
  ScriptLaunches launches_;
  ScriptFiles files_;
  std::vector<Target> targets_;
  std::vector<std::string> given_;       // the variables that stand before a command that is read
  std::vector<std::string> open_files_;  // that are read, one inside of the other
  std::set<std::string> called_;         // functions
  std::optional<std::string> piped_;     // what the next command gets from a pipe; none: not known
  ScriptEnd ended_;
  std::size_t commands_ = 0;  // that were read
  int depth_ = 0;             // of lists of commands that are read, one inside of the other
  int children_ = 0;          // shells that the script starts, one inside of the other
  int documents_ = 0;         // here-documents that are read
  int conditions_ = 0;        // those around the next command: no failure in them ends the script
  int substitutions_ = 0;     // whose output is followed
};

}  // namespace verify
