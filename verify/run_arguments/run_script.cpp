#include "verify/run_arguments/run_script.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fmt/format.h>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "sim/base/error.h"
#include "verify/output/refusal_table.h"
#include "verify/run_arguments/launch_choice.h"
#include "verify/run_arguments/launch_command.h"
#include "verify/run_arguments/launch_words.h"
#include "verify/run_arguments/launch_world.h"
#include "verify/run_arguments/script_files.h"
#include "verify/run_arguments/shell_condition.h"
#include "verify/run_arguments/shell_values.h"
#include "verify/run_arguments/shell_words.h"

namespace verify {

namespace {

using Kind = ShellCommand::Kind;
using Step = std::function<void()>;

constexpr std::size_t kMostCommands = 200'000;
constexpr int kMostDepth = 200;         // of lists of commands, one inside of the other
constexpr std::size_t kMostCalls = 16;  // one inside of the other
constexpr int kMostPasses = 4;          // of a loop whose rounds are not known
constexpr int kMostNesting = 8;         // of files and texts

/// Counts as long as it is there.
struct Counted {
  explicit Counted(int& of) : count(of) { ++count; }
  ~Counted() { --count; }
  int& count;
};

bool are_same(const ShellState& a, const ShellState& b) {
  const ShellArguments &first = a.calls.back().arguments, &second = b.calls.back().arguments;
  return first.fields == second.fields && first.shifted == second.shifted &&
         std::ranges::equal(*a.variables, *b.variables, [](const auto& one, const auto& other) {
           return one.first == other.first && one.second->fields == other.second->fields;
         });
}

bool is_name(std::string_view text) {
  return !text.empty() && begins_shell_name(text.front()) && std::ranges::all_of(text, is_of_shell_name);
}

/// Returns the letters of the options after the name of a command.
std::string options_of(const ShellFields& words) {
  std::string letters;
  for (std::size_t at = 1; at < words.size() && words[at].text.starts_with('-'); ++at)
    letters += words[at].text.substr(1);
  return letters;
}

/// Returns the number after the name of a command, or 1; none where it is not known.
std::optional<std::int64_t> count_of(const ShellFields& words) {
  return words.size() > 1 ? whole_number(words[1].text) : std::int64_t{1};
}

/// What the commands of a launch script do to variables, and which of them run.
class ScriptReader {
 public:
  ScriptReader(const RunVariables& set, const std::string& path)
      : values_(set), launches_(values_), files_(path), open_files_({files_.script()}) {
    for (const char* name : {"0", "BASH_SOURCE"})
      if (!path.empty()) values_.define(name, files_.script(), 0);
    values_.output_of = [this](const ShellList& commands) {
      const Counted counted(substitutions_);
      const ShellStatus status = state_.status;
      std::optional<std::string> text = std::exchange(state_.output, "");
      std::string asked = std::exchange(state_.output_asked, "");
      in_shell([&] { run(commands); });
      std::swap(text, state_.output);
      std::swap(asked, state_.output_asked);
      state_.status = status;
      while (text && text->ends_with('\n')) text->pop_back();
      return std::pair(std::move(text), asked);
    };
  }
  ScriptReader(const ScriptReader&) = delete;  // its launches hold its values
  ScriptReader& operator=(const ScriptReader&) = delete;

  RunArguments arguments(std::string_view text) {
    run_script(parse_shell(text), true);
    if (launches_.size() == 0) read_what_is_not_started();
    RunArguments run = launches_.arguments(world_, state_.goes_on ? 0 : line_of_exit_);
    for (const auto& [path, other] : files_.texts()) run.other_texts.push_back(other);
    return run;
  }

 private:
  /// Something that `break`, `return` or `exit` leaves.
  struct Target {
    enum class Kind { loop, call, shell };
    Kind kind = Kind::loop;
    std::vector<ShellState> leaves = {};
    std::vector<ShellState> continues = {};
  };
  struct File {
    std::string path;
    ShellScript script;
  };

  // ---- lists, branches and loops

  void run(const ShellList& commands) {
    const Counted depth(depth_);
    if (depth_ > kMostDepth)
      refuse_by("script_syntax/deep", place_of_line(commands.empty() ? 0 : commands.front().line),
                kMostDepth);
    for (std::size_t i = 0; i < commands.size() && state_.goes_on; ++i) run_chained(commands[i]);
  }

  /// Runs a command that may stand after && or ||.
  void run_chained(const ShellCommand& command) {
    if (command.chain.empty()) return run(command);
    const bool is_and = command.chain == "&&";
    const ShellStatus before = state_.status;
    if (before.success == !is_and) return leave_unassigned({command});
    std::optional<ShellStatus> own;
    const Step skips = [] {}, runs = [&] {
      run(command);
      if (state_.goes_on) own = state_.status;
    };
    decide(before, is_and ? runs : skips, is_and ? skips : runs);
    if (own) state_.status = is_and ? both(before, *own) : either(before, *own);
    if (!own) state_.status = {.success = !is_and};
  }

  /// Runs a command whose output may go to a file. A file that the script writes can be started by it.
  void run(const ShellCommand& command) {
    if (command.output.empty()) {
      run_kind(command);
    } else {
      const Counted counted(substitutions_);
      const std::optional<std::string> outer = std::exchange(state_.output, "");
      run_kind(command);
      std::optional<std::string> text = std::exchange(state_.output, outer);
      const ShellField path = values_.whole(command.output.front());
      const bool is_file = !path.has_unknown() && state_.folder && !path.text.starts_with('&');
      const std::string file = is_file ? files_.path_of(path.text, *state_.folder) : "";
      if (text && command.appends) text = state_.files[file].value_or("") + *text;
      if (!file.empty()) state_.files[file] = text;
    }
    if (command.is_negated) state_.status = opposite(state_.status);
  }

  void run_kind(const ShellCommand& command) {
    switch (command.kind) {
      case Kind::simple:
        return run_simple(command);
      case Kind::arithmetic:
        return compute(values_.whole(command.words[0]).text, command.line);
      case Kind::test:
        state_.status = shell_test(command.words, true, values_);
        return;
      case Kind::group:
        return run(command.lists[0]);
      case Kind::subshell:
        in_shell([&] { run(command.lists[0]); });
        if (command.name == "&") state_.status = {.success = true};
        return;
      case Kind::pipeline:
        return run_pipeline(command);
      case Kind::branch:
        return run_branch(command);
      case Kind::choice:
        return run_choice(command, 0, values_.whole(command.words[0]));
      case Kind::function:
        state_.functions[command.name] = std::make_shared<const ShellList>(command.lists[0]);
        return;
      default:
        return run_loop(command);
    }
  }

  void compute(const std::string& expression, int line) {
    std::string asked;
    const auto number = values_.number_of(expression, line, &asked);
    state_.status = {.asked = asked};
    if (number) state_.status.success = *number != 0;
  }

  void run_simple(const ShellCommand& command) {
    if (++commands_ > kMostCommands)
      refuse_by("run_file_size/commands", place_of_line(command.line), kMostCommands);
    const ShellFields words = values_.expand(command.words);
    std::vector<std::string> names;
    bool may_fail = false;  // an output that is assigned has a success of its own
    for (const ShellAssignment& assignment : command.assignments) {
      names.push_back(assignment.name);
      for (const ShellWord& word : assignment.values)
        for (const ShellPart& part : word.parts) may_fail = may_fail || part.kind == ShellPart::Kind::output;
    }
    const ShellVariables outer = values_.kept(names);
    for (const ShellAssignment& assignment : command.assignments) values_.assign(assignment);
    state_.status.success = true;
    if (words.empty()) {
      if (may_fail) state_.status.success.reset();
      if (!command.input.empty()) print(std::nullopt);  // $(< file)
      return;
    }
    // Assignments before a word are those of the command alone.
    for (const std::string& name : names) values_.export_variable(name);
    run_words(command, words);
    if (state_.goes_on) values_.give_back(outer);
  }

  void run_words(const ShellCommand& command, const ShellFields& words) {
    const auto function = state_.functions.find(words[0].text);
    if (function != state_.functions.end()) return call(function->second, command, words);
    const Builtin follow = builtin(words[0].text);
    if (follow == nullptr) return start(command, words);
    (this->*follow)(command, words);
  }

  /// Remembers variables that a branch which is not taken would give arguments. They are the script's own,
  /// and empty as long as nothing else gives them a value.
  void leave_unassigned(const ShellList& commands) {
    for (const ShellCommand& command : commands) {
      for (const ShellAssignment& assignment : command.assignments)
        for (const ShellWord& word : assignment.values)
          for (const ShellPart& part : word.parts)
            if (part.text.find("--") != std::string::npos) state_.own.insert(assignment.name);
      for (const ShellList& list : command.lists) leave_unassigned(list);
    }
  }

  /// Goes on with the ends of branches that go on. `before` is the state from before them, if one has it.
  void join(std::vector<ShellState> ends, const ShellState* before, const std::string& asked) {
    const bool have_exited = std::ranges::all_of(ends, &ShellState::has_exited);
    std::erase_if(ends, [](const ShellState& end) { return !end.goes_on; });
    if (ends.empty()) {
      state_ = {};
      state_.goes_on = false;
      state_.has_exited = have_exited;
      return;
    }
    const ShellState first = before == nullptr && ends.size() > 1 ? ends.front() : ShellState();
    state_ = values_.joined(std::move(ends), before != nullptr ? *before : first, asked);
  }

  /// Runs one of two paths, or both where nobody knows which one runs.
  void decide(const ShellStatus& status, const Step& yes, const Step& no) {
    const bool is_first = status.success.value_or(true);
    const Step& taken = is_first ? yes : no;
    const Step& other = is_first ? no : yes;
    const std::set<std::string>& empty = is_first ? status.empty_if_true : status.empty_if_false;
    if (status.success && empty.empty()) return taken();
    const ShellState before = state_;
    taken();
    const int line = line_of_exit_;
    // It runs as variables have no value from outside. Where it ends the script, they have one in a run.
    if (status.success && !state_.has_exited) return;
    const ShellState first = std::exchange(state_, before);
    if (status.success) require(empty, line);
    other();
    if (status.success) return;
    const ShellState second = state_;
    join({first, second}, &before, status.asked);
    settle(status.empty_if_true, before, first, line);
    settle(status.empty_if_false, before, second, line_of_exit_);
  }

  /// Follows what a path says about the variables without a value from outside that lead to it: it gives them
  /// defaults, or the script needs them, since the path ends it.
  void settle(const std::set<std::string>& names, const ShellState& before, const ShellState& path,
              int line) {
    if (!state_.goes_on) return;
    if (path.has_exited) return require(names, line);
    for (const std::string& name : names) {
      const auto found = path.variables->find(name);
      const bool is_new = found != path.variables->end() && !before.variables->contains(name);
      if (path.goes_on && is_new) values_.give_back({{name, found->second}});
    }
  }

  /// Notes that the script needs variables, since it ends where they are empty. From there on they have
  /// values.
  void require(const std::set<std::string>& names, int line) {
    for (const std::string& name : names) {
      values_.need(name, line);
      if (is_name(name)) values_.forget(name, line, "the script ends before its training without it");
    }
  }

  void run_branch(const ShellCommand& branch) {
    run(branch.lists[0]);
    if (!state_.goes_on) return;
    const ShellStatus status = std::exchange(state_.status, {.success = true});
    const ShellList none;
    const ShellList& other = branch.lists.size() > 2 ? branch.lists[2] : none;
    if (status.success) leave_unassigned(*status.success ? other : branch.lists[1]);
    decide(
        status, [&] { run(branch.lists[1]); }, [&] { run(other); });
  }

  /// Runs the commands of the patterns from number `first` on that the subject fits, or may fit.
  void run_choice(const ShellCommand& choice, std::size_t first, const ShellField& subject) {
    state_.status = {.success = true};
    const ShellState before = state_;
    std::vector<ShellState> ends;
    bool may_go_on = true;
    for (std::size_t at = first; at < choice.lists.size(); ++at) {
      std::optional<bool> fits = false;
      if (may_go_on) fits = fits_one_of(choice.patterns[at].words, subject, values_);
      if (fits == false) leave_unassigned(choice.lists[at]);
      if (fits == false) continue;
      state_ = before;
      std::size_t last = at;  // commands that end with ";&" go on with the next ones
      for (run(choice.lists[at]); choice.patterns[last].ending == ";&" && last + 1 < choice.lists.size();)
        run(choice.lists[++last]);
      if (choice.patterns[last].ending == ";;&" && state_.goes_on) run_choice(choice, last + 1, subject);
      ends.push_back(state_);
      may_go_on = !fits;
    }
    if (may_go_on) ends.push_back(before);
    join(std::move(ends), &before, values_.variable_of({subject}));
  }

  /// Runs a loop over known words round by round.
  void run_loop(const ShellCommand& loop) {
    const auto is_open = [](const ShellField& word) { return word.has_unknown() || word.may_be_many; };
    const bool has_list = loop.kind == Kind::each;
    const ShellFields list = has_list ? values_.expand(loop.words) : ShellFields();
    if (loop.kind == Kind::counted) values_.number_of(values_.whole(loop.words[0]).text, loop.line);
    enter(Target::Kind::loop, [&] {
      if (!has_list || std::ranges::any_of(list, is_open)) return run_unknown_rounds(loop);
      for (auto word = list.begin(); word != list.end() && state_.goes_on; ++word) {
        values_.define(loop.name, word->text, loop.line);
        run_round(loop);
      }
    });
  }

  /// Runs a round, which may end with `continue`.
  void run_round(const ShellCommand& loop) {
    run(loop.lists[0]);
    std::vector<ShellState> ends = std::exchange(targets_.back().continues, {});
    ends.push_back(std::move(state_));
    join(std::move(ends), nullptr, "");
    if (loop.kind == Kind::counted) values_.number_of(values_.whole(loop.words[2]).text, loop.line);
  }

  /// Asks whether another round begins.
  ShellStatus begins_round(const ShellCommand& loop) {
    if (loop.kind == Kind::each) values_.forget(loop.name, loop.line, "it takes several values in a loop");
    if (loop.kind == Kind::each) return {};
    if (loop.kind == Kind::repeat) run(loop.lists[1]);
    if (loop.kind == Kind::counted) compute(values_.whole(loop.words[1]).text, loop.line);
    return loop.name == "until" ? opposite(state_.status) : state_.status;
  }

  /// Runs a loop of which nobody knows how many rounds it has: until another round makes no difference.
  void run_unknown_rounds(const ShellCommand& loop) {
    const std::size_t launches = launches_.size(), leaves = targets_.back().leaves.size();
    for (int pass = 0;; ++pass) {
      const ShellState entry = state_;
      launches_.cut(launches);
      targets_.back().leaves.resize(leaves);
      const ShellStatus begins = begins_round(loop);
      state_.status = {.success = begins.success == false && pass == 0 ? std::optional(true) : std::nullopt};
      if (begins.success == false || !state_.goes_on) return;
      const ShellState end = state_;
      run_round(loop);
      if (begins.success == true && begins.empty_if_true.empty() && !state_.goes_on) return;
      const ShellState again = state_.goes_on ? values_.joined({entry, state_}, entry, "", true) : entry;
      const bool is_done = are_same(entry, again) || pass == kMostPasses;
      state_ = is_done ? end : again;
      if (pass == kMostPasses) values_.forget_all(loop.line);
      if (is_done) return;
    }
  }

  /// Runs what can be left, and goes on with the states in which it was.
  void enter(Target::Kind kind, const Step& commands) {
    state_.status = {.success = true};
    targets_.push_back({.kind = kind});
    commands();
    std::vector<ShellState> ends = std::move(targets_.back().leaves);
    targets_.pop_back();
    ends.push_back(std::move(state_));
    join(std::move(ends), nullptr, "");
  }

  /// Leaves loops, a function or a shell: what is behind runs with the state from here. Returns whether there
  /// is something to leave.
  bool leaves(Target::Kind kind, std::int64_t levels, bool continues) {
    const bool is_of_loop = kind == Target::Kind::loop;
    auto target = targets_.rbegin();
    while (!is_of_loop && target != targets_.rend() && target->kind != kind &&
           target->kind != Target::Kind::shell)
      ++target;
    if (target == targets_.rend() || (is_of_loop && target->kind != kind)) return false;
    for (; levels > 1 && target + 1 != targets_.rend() && (target + 1)->kind == kind; --levels) ++target;
    values_.charge(sizeof(ShellState), 0);
    (continues ? target->continues : target->leaves).push_back(state_);
    state_.goes_on = false;
    return true;
  }

  /// Runs commands in a shell of their own. Of what they change, their output and the files they write are
  /// left.
  void in_shell(const Step& commands) {
    const ShellState before = state_;
    enter(Target::Kind::shell, commands);
    ShellState after = std::exchange(state_, before);
    state_.output = std::move(after.output);
    state_.output_asked = std::move(after.output_asked);
    state_.files = std::move(after.files);
    state_.status = std::move(after.status);
  }

  /// Runs the commands of a pipeline, each of which gets the output of the one before.
  void run_pipeline(const ShellCommand& pipeline) {
    const Counted counted(substitutions_);
    const std::optional<std::string> outer = state_.output, input = piped_;
    for (const ShellList& list : pipeline.lists) {
      state_.output = "";
      in_shell([&] { run(list); });
      piped_ = state_.output;
      if (piped_ && state_.output_asked.empty()) state_.output_asked = values_.variable_of({{*piped_}});
    }
    state_.output = state_.output == "" ? outer : std::nullopt;
    piped_ = input;
    state_.status = {.asked = state_.output_asked};
  }

  /// Runs the commands of a function. One that gets "$@" alone has the arguments around it.
  void call(const std::shared_ptr<const ShellList>& body, const ShellCommand& command,
            const ShellFields& words) {
    state_.status = {};
    if (body == nullptr || state_.calls.size() > kMostCalls) {
      print(std::nullopt);
      return values_.forget_all(command.line);
    }
    called_.insert(words[0].text);
    ShellArguments arguments = state_.calls.back().arguments;
    const bool is_one = command.words.size() == 2 && command.words[1].parts.size() == 1;
    const bool hands_on =
        is_one && command.words[1].parts[0].text == "@" && command.words[1].parts[0].is_quoted;
    if (!hands_on || arguments.are_known)
      arguments = {.are_known = true, .fields = {words.begin() + 1, words.end()}};
    state_.calls.push_back({.arguments = std::move(arguments)});
    enter(Target::Kind::call, [&] { run(*body); });
    if (!state_.goes_on) return;
    values_.give_back(state_.calls.back().outer);
    state_.calls.pop_back();
  }

  // ---- commands of the shell itself

  using Builtin = void (ScriptReader::*)(const ShellCommand&, const ShellFields&);
  static Builtin builtin(std::string_view name) {
    using Reader = ScriptReader;
    static constexpr std::pair<std::string_view, Builtin> kRows[] = {
        {" : true ", &Reader::succeed},   {" false ", &Reader::fail},
        {" [ test ", &Reader::test},      {" echo ", &Reader::echo},
        {" cat ", &Reader::print_input},  {" pwd dirname basename ", &Reader::print_path},
        {" cd ", &Reader::change_folder}, {" export declare local readonly typeset ", &Reader::declare},
        {" unset ", &Reader::unset},      {" shift ", &Reader::shift},
        {" set ", &Reader::set},          {" read mapfile readarray getopts printf ", &Reader::forget_read},
        {" let ", &Reader::let},          {" eval ", &Reader::evaluate},
        {" source . ", &Reader::source},  {" exit return break continue ", &Reader::leave},
    };
    const std::string wanted = fmt::format(" {} ", name);
    for (const auto& [names, follow] : kRows)
      if (names.find(wanted) != std::string_view::npos) return follow;
    return nullptr;
  }

  void succeed(const ShellCommand& /*command*/, const ShellFields& /*words*/) {}
  void fail(const ShellCommand& /*command*/, const ShellFields& /*words*/) { state_.status.success = false; }
  void let(const ShellCommand& command, const ShellFields& words) {
    for (auto word = words.begin() + 1; word != words.end(); ++word) compute(word->text, command.line);
  }
  void test(const ShellCommand& command, const ShellFields& words) {
    const bool has_bracket = words[0].text == "[" && command.words.size() > 1;
    state_.status =
        shell_test({command.words.begin() + 1, command.words.end() - (has_bracket ? 1 : 0)}, false, values_);
  }

  /// Adds to the output of the substitution that is followed. `asked` would tell a text that is not known.
  void print(const std::optional<std::string>& text, const std::string& asked = "") {
    if (substitutions_ == 0) return;
    if (!text && state_.output_asked.empty()) state_.output_asked = asked;
    if (text) values_.charge(text->size(), 0);
    const bool is_known = text && state_.output && state_.output->size() < kMostShellValueBytes;
    state_.output = is_known ? std::optional(*state_.output + *text) : std::nullopt;
  }

  void echo(const ShellCommand& /*command*/, const ShellFields& words) {
    const std::string option = words.size() > 1 ? words[1].text : "";
    const bool has_option = option == "-n" || option == "-e" || option == "-ne" || option == "-en";
    std::string text;
    for (std::size_t i = has_option ? 2 : 1; i < words.size(); ++i)
      text += (text.empty() ? "" : " ") + words[i].text;
    const bool has_signs = has_option && option != "-n" && text.find('\\') != std::string::npos;
    if (!has_option || option == "-e") text += '\n';
    print(has_signs ? std::nullopt : std::optional(text), values_.variable_of(words));
  }

  /// Follows `pwd`, `dirname` and `basename`.
  void print_path(const ShellCommand& /*command*/, const ShellFields& words) {
    const std::string path = words.size() == 2 && !words[1].has_unknown() ? words[1].text : "";
    const bool is_plain = !path.empty() && path.front() != '-' && path.back() != '/';
    const std::size_t slash = path.rfind('/');
    std::optional<std::string> text;
    if (words[0].text == "pwd" && words.size() == 1 && state_.folder && state_.folder->starts_with('/'))
      text = state_.folder;
    if (words[0].text == "basename" && is_plain) text = path.substr(slash + 1);
    if (words[0].text == "dirname" && is_plain)
      text = slash == std::string::npos ? "." : path.substr(0, std::max<std::size_t>(slash, 1));
    if (text) *text += "\n";
    print(text, values_.variable_of(words));
  }

  /// Follows `cat`, which prints what it gets from a here-document, a here-string or a pipe.
  void print_input(const ShellCommand& command, const ShellFields& words) {
    std::optional<std::string> input = piped_;
    if (command.documents.size() == 1) input = values_.text_of(*command.documents.front());
    if (command.input.size() == 1) input = values_.whole(command.input.front()).text + "\n";
    print(words.size() == 1 ? input : std::nullopt, values_.variable_of(words));
  }

  /// Follows `cd`. It succeeds where the folder is there, and otherwise that is not known.
  void change_folder(const ShellCommand& /*command*/, const ShellFields& words) {
    const bool is_known =
        words.size() == 2 && !words[1].has_unknown() && state_.folder && words[1].text != "-";
    const std::string folder = is_known ? files_.path_of(words[1].text, *state_.folder) : "";
    state_.status.success.reset();
    state_.folder.reset();
    if (!folder.empty()) state_.folder = folder;
    if (files_.has_folder(folder)) state_.status.success = true;
  }

  void declare(const ShellCommand& command, const ShellFields& words) {
    const std::string options = options_of(words);
    for (const ShellAssignment& assignment : command.declared) declare(assignment, words[0].text, options);
    for (std::size_t at = 1; at < words.size(); ++at) {
      const std::string& text = words[at].text;
      const std::size_t equals = std::min(text.find('='), text.size());
      const bool appends = equals > 0 && equals < text.size() && text[equals - 1] == '+';
      ShellAssignment assignment{
          .name = text.substr(0, equals - (appends ? 1 : 0)), .appends = appends, .line = command.line};
      const ShellPart value{.is_quoted = true, .text = text.substr(std::min(equals + 1, text.size()))};
      if (equals < text.size()) assignment.values.push_back({{value}, command.line});
      if (is_name(assignment.name)) {
        declare(assignment, words[0].text, options);
      } else if (words[at].has_unknown()) {
        launches_.keep_assigning(words[at], command.line);
      }
    }
  }

  /// Follows what `local`, `declare` and their like say of a variable, and the value that they may give it.
  void declare(const ShellAssignment& assignment, const std::string& word, const std::string& options) {
    const std::string& name = assignment.name;
    const auto has = [&](const char* letters) { return options.find_first_of(letters) != std::string::npos; };
    const bool is_local = word != "export" && word != "readonly" && !has("g") && state_.calls.size() > 1;
    ShellVariables outer = values_.kept({name});
    const auto is_exported = outer[name] != nullptr ? outer[name]->is_exported : false;
    if (is_local) state_.calls.back().outer.merge(outer);
    if (has("Ain")) state_.opaque[name] = has("n");
    if (has("n")) values_.forget_all(assignment.line);
    if (assignment.is_array || !assignment.values.empty()) {
      values_.assign(assignment);
    } else if (has("a") || has("A")) {
      values_.assign({.name = name, .is_array = true, .line = assignment.line});
    } else if (is_local) {
      values_.keep(name, {.kind = ShellValue::Kind::unset, .is_exported = is_exported});
    }
    if (word == "export" || has("x")) values_.export_variable(name);
  }

  void unset(const ShellCommand& command, const ShellFields& words) {
    const std::string options = options_of(words);
    for (std::size_t at = options.empty() ? 1 : 2; at < words.size() && options != "f"; ++at) {
      const std::string& name = words[at].text;
      if (words[at].has_unknown() || options == "n") {
        values_.forget_all(command.line);
      } else if (!is_name(name)) {
        values_.forget(name.substr(0, name.find('[')), command.line, "an element of it may have been unset");
      } else if (!values_.is_locked(name)) {
        values_.keep(name, {.kind = ShellValue::Kind::unset});
      }
    }
  }

  void shift(const ShellCommand& /*command*/, const ShellFields& words) {
    ShellArguments& arguments = state_.calls.back().arguments;
    ShellFields& fields = arguments.fields;
    constexpr std::int64_t kMost = 1'000'000;
    const std::int64_t count = count_of(words).value_or(-1),
                       most = arguments.are_known ? std::ssize(fields) : kMost;
    const auto end = fields.begin() + (arguments.are_known ? std::clamp<std::int64_t>(count, 0, most) : 0);
    if (count < 0 || count > most || std::ranges::any_of(fields.begin(), end, &ShellField::may_be_many)) {
      arguments = {.shifted = std::nullopt};
    } else if (arguments.are_known) {
      fields.erase(fields.begin(), end);
    } else if (arguments.shifted) {
      *arguments.shifted = std::min(*arguments.shifted + count, kMost);
    }
  }

  /// Follows `set`, which gives the script other arguments. Of its options, -a exports what is assigned.
  void set(const ShellCommand& /*command*/, const ShellFields& words) {
    for (std::size_t at = 1; at < words.size(); ++at) {
      const std::string& word = words[at].text;
      if (word.size() < 2 || (word[0] != '-' && word[0] != '+') || word == "--") {
        const auto first = words.begin() + static_cast<std::ptrdiff_t>(at) + (word == "--" ? 1 : 0);
        state_.calls.back().arguments = {.are_known = true, .fields = {first, words.end()}};
        return;
      }
      const bool has_name = word.ends_with('o') && at + 1 < words.size();
      if (word.find('a') != std::string::npos || (has_name && words[at + 1].text == "allexport"))
        state_.exports_all = word[0] == '-';
      at += has_name ? 1 : 0;
    }
  }

  /// Of what `read`, `mapfile`, `getopts` and `printf` do nothing is followed but read -d '' with a
  /// here-document.
  void forget_read(const ShellCommand& command, const ShellFields& words) {
    state_.status.success.reset();
    const std::string& program = words[0].text;
    if (program == "printf" && options_of(words) != "v")
      return print(std::nullopt, values_.variable_of(words));
    const std::size_t count = words.size();
    const bool is_whole = program == "read" && count > 3 && command.documents.size() == 1 &&
                          words[count - 2].text.empty() && words[count - 3].text.ends_with('d');
    std::string text = is_whole ? values_.text_of(*command.documents.front()) : "\\";
    if (text.find('\\') == std::string::npos ||
        (is_whole && options_of(words).find('r') != std::string::npos)) {
      const std::size_t begin = std::min(text.find_first_not_of(" \t\n"), text.size());
      text = text.substr(begin, text.find_last_not_of(" \t\n") + 1 - begin);
      return values_.define(words.back().text, text, command.line);
    }
    ShellFields names = {{"REPLY"}, {"OPTARG"}, {"OPTIND"}, {"MAPFILE"}};
    std::erase_if(names, [&](const ShellField& name) { return !state_.variables->contains(name.text); });
    names.insert(names.end(), words.begin() + 1, words.end());
    for (const ShellField& word : names) {
      if (word.has_unknown()) values_.forget_all(command.line);
      if (is_name(word.text) && !values_.is_locked(word.text))
        values_.forget(word.text, command.line, fmt::format("`{}` gives it its value", program));
    }
  }

  /// Follows `exit`, `return`, `break` and `continue`.
  void leave(const ShellCommand& command, const ShellFields& words) {
    const std::string& word = words[0].text;
    const auto count = count_of(words);
    if (word == "break" || word == "continue") {
      leaves(Target::Kind::loop, count.value_or(1), word == "continue");
      return;
    }
    if (words.size() > 1) state_.status = {};
    if (words.size() > 1 && count) state_.status.success = *count == 0;
    if (leaves(word == "exit" ? Target::Kind::shell : Target::Kind::call, 1, false) || word != "exit") return;
    line_of_exit_ = command.line;
    state_.goes_on = false;
    state_.has_exited = true;
  }

  // ---- texts and other scripts

  /// Reads how many processes `sbatch` or an #SBATCH line asks for.
  void read_allocation(const ShellFields& words) {
    world_.read(words, "srun");
    for (const auto& [name, value] : world_.slurm_variables()) {
      values_.define(name, value.text, value.line);
      values_.export_variable(name);
    }
  }

  void run_script(const ShellScript& script, bool has_directives) {
    for (const auto& [line, directive] : script.directives) {
      ShellFields words;
      for (const ShellCommand& command : parse_shell(directive, line).commands)
        std::ranges::move(values_.expand(command.words), std::back_inserter(words));
      if (has_directives) read_allocation(words);
    }
    run(script.commands);
  }

  /// Runs commands in a shell that the script starts, which gets the variables that are exported, or none
  /// where it is elsewhere. What the launcher before it says holds for its trainings.
  void run_child(const Step& commands, int line, const ShellFields& launcher) {
    const std::size_t launches = launches_.size();
    const bool is_elsewhere = std::ranges::any_of(
        launcher, [](const ShellField& word) { return is_program(word.text, "elsewhere"); });
    const Counted counted(children_);
    if (children_ > kMostNesting) return;
    in_shell([&] {
      auto variables = std::make_shared<ShellVariables>(*state_.variables);
      std::erase_if(*variables,
                    [&](const auto& one) { return is_elsewhere || one.second->is_exported == false; });
      state_.variables = variables;
      for (const auto& [name, value] : *variables)
        if (!value->is_exported) values_.forget(name, line, "it may not be exported");
      commands();
    });
    state_.status = {};
    launches_.add_launcher(launches, launcher);
  }

  /// Runs a text that another program gets. What is no script there is passed over.
  void run_text(std::string_view text, int line, const ShellFields& launcher, bool is_document) {
    if (text.find("--") == std::string_view::npos && text.find(".sh") == std::string_view::npos) return;
    documents_ += is_document ? 1 : 0;
    try {
      const ShellScript script = parse_shell(text, line);
      run_child([&] { run_script(script, true); }, line, launcher);
    } catch (const sim::Error& error) {
      const std::string& code = error.refusal().code;
      if (code != "script_syntax" && (code != "bare_bracket" || !is_document)) throw;
    }
    documents_ -= is_document ? 1 : 0;
  }

  /// Runs the text that `eval` gets.
  void evaluate(const ShellCommand& command, const ShellFields& words) {
    std::string text;
    for (auto word = words.begin() + 1; word != words.end(); ++word) text += word->text + " ";
    // Where the command itself is the output of another one, it may be an assignment.
    const std::string source = text.starts_with(kUnknownBegin) ? values_.unresolved(text).front().text : "";
    if (source.find_first_of("(`") != std::string::npos) launches_.keep_assigning(words[1], command.line);
    ShellScript script;
    try {
      script = parse_shell(text, words.back().line);
    } catch (const sim::Error& error) {
      if (error.refusal().code != "script_syntax") throw;
    }
    state_.status = {};
    run(script.commands);
  }

  /// Returns a file that a script names, where it can be read.
  std::optional<File> file(const ShellField& written, int line) {
    if (!state_.folder || written.has_unknown()) return std::nullopt;
    const std::string path = files_.path_of(written.text, *state_.folder);
    const bool is_open = std::ranges::find(open_files_, path) != open_files_.end();
    if (path.empty() || is_open || std::ssize(open_files_) > kMostNesting) return std::nullopt;
    const auto made = state_.files.find(path);
    const bool is_made = made != state_.files.end();
    const std::optional<std::string> text = is_made ? made->second : files_.text_of(path);
    if (!text) return std::nullopt;
    if (!is_made)
      launches_.keep_sentence(fmt::format("{}, which line {} names, is read", base_name(path), line));
    try {
      return File{path, parse_shell(*text, line, false)};
    } catch (const sim::Error&) {
      return std::nullopt;
    }
  }

  void source(const ShellCommand& command, const ShellFields& words) {
    if (words.size() < 2) return;
    const std::optional<File> file = this->file(words[1], command.line);
    state_.status = {};
    if (!file) return launches_.keep_sourced(words[1], command.line);
    const ShellVariables outer = values_.kept({"BASH_SOURCE"});
    const ShellArguments arguments = state_.calls.back().arguments;
    const bool has_arguments = words.size() > 2;
    if (has_arguments)
      state_.calls.back().arguments = {.are_known = true, .fields = {words.begin() + 2, words.end()}};
    values_.define("BASH_SOURCE", file->path, 0);
    open_files_.push_back(file->path);
    enter(Target::Kind::call, [&] { run_script(file->script, false); });
    open_files_.pop_back();
    values_.give_back(outer);
    if (has_arguments) state_.calls.back().arguments = arguments;
  }

  /// Follows a command that starts another script. Returns whether it does, and the script can be read.
  bool starts_file(const ShellCommand& command, const ShellFields& words) {
    const auto script = started_script(words);
    if (script == words.end()) return false;
    const std::optional<File> file = this->file(*script, command.line);
    if (!file) return false;
    const ShellFields before(words.begin(), script);
    const bool is_allocated = is_sbatch(words) && !before.empty();
    if (is_allocated) read_allocation(before);
    open_files_.push_back(file->path);
    const auto commands = [&] {
      state_.calls = {{}};
      state_.calls.back().arguments = {.are_known = true, .fields = {script + 1, words.end()}};
      for (const char* name : {"0", "BASH_SOURCE"}) values_.define(name, file->path, 0);
      run_script(file->script, is_allocated);
    };
    run_child(commands, command.line, before);
    open_files_.pop_back();
    return true;
  }

  static bool is_sbatch(const ShellFields& words) { return base_name(words.front().text) == "sbatch"; }

  /// Follows a command that hands a text to a shell: bash -c "...", ssh host "...", sbatch --wrap "...".
  bool starts_text(const ShellFields& words) {
    bool is_behind_shell = false, takes_text = false, is_found = false;
    for (auto word = words.begin(); word != words.end(); ++word) {
      const std::string& text = word->text;
      const std::string wrapped = is_sbatch(words) && text.starts_with("--wrap") ? text.substr(0, 7) : "";
      const bool is_text = wrapped.ends_with('=') || (takes_text && has_blank(text));
      const ShellFields before(words.begin(), word);
      if (!wrapped.empty()) read_allocation(before);
      if (is_text) run_text(std::string_view(text).substr(wrapped.size()), word->line, before, false);
      const bool is_option = text.ends_with('c') && text.find_first_not_of('-') == 1;
      if (is_program(text, "shell")) takes_text = is_program(text, "elsewhere");
      takes_text = takes_text || !wrapped.empty() || (is_option && is_behind_shell);
      is_behind_shell = is_behind_shell || is_program(text, "shell");
      is_found = is_found || is_text;
    }
    return is_found;
  }

  /// Follows a command that is none of the shell's own, and may start the training.
  void start(const ShellCommand& command, const ShellFields& words) {
    state_.status = {.asked = values_.variable_of(words)};
    print(std::nullopt, state_.status.asked);
    launches_.keep_what_is_not_known(words);
    if (is_flag(words.front().text)) return launches_.add_arguments(words, command.line, documents_ > 0);
    const auto python = training_script(words);
    const auto dashes =
        std::find_if(words.rbegin(), words.rend(), [](const ShellField& word) { return word.text == "--"; });
    if (dashes != words.rend() && dashes.base() > python) {  // a launcher of somebody's own, and its command
      const ShellFields behind(dashes.base(), words.end());
      if (training_script(behind) != behind.end()) return start(command, behind);
    }
    if (python != words.end()) return launches_.add(words, command.line);
    if (!starts_text(words) && !starts_file(command, words)) launches_.add(words, command.line);
    run_input(command, words);
  }

  /// Follows a command that gets a script from a here-document, a here-string or a pipe.
  void run_input(const ShellCommand& command, const ShellFields& words) {
    if (is_sbatch(words) && !command.documents.empty()) read_allocation(words);
    for (const auto& document : command.documents)
      run_text(values_.text_of(*document), document->line, words, true);
    for (const ShellWord& text : command.input) run_text(values_.whole(text).text, text.line, words, true);
    const bool is_of_shell = is_sbatch(words) || std::ranges::any_of(words, [](const ShellField& word) {
                               return is_program(word.text, "shell");
                             });
    if (piped_ && is_of_shell && command.documents.empty()) run_text(*piped_, command.line, words, true);
  }

  /// Reads what is only found where no command is: scripts that the file writes, and functions that nothing
  /// calls.
  void read_what_is_not_started() {
    const ShellState end = state_;
    state_.goes_on = true;
    for (const auto& [path, text] : end.files)
      if (text) run_text(*text, 1, {}, true);
    for (const auto& [name, body] : end.functions)
      if (body != nullptr && !called_.contains(name) && launches_.size() == 0) in_shell([&] { run(*body); });
    state_ = end;
  }

  ShellValues values_;
  ShellState& state_ = values_.state;
  LaunchWorld world_;
  LaunchChoice launches_;
  ScriptFiles files_;
  std::vector<Target> targets_;
  std::vector<std::string> open_files_;  // that are read, one inside of the other
  std::set<std::string> called_;         // functions
  std::optional<std::string> piped_;     // what the next command gets from a pipe; none: not known
  int line_of_exit_ = 0;                 // of the last `exit`
  std::size_t commands_ = 0;             // that were read
  int depth_ = 0;                        // of lists of commands that are read, one inside of the other
  int children_ = 0;                     // shells that the script starts, one inside of the other
  int documents_ = 0;                    // here-documents that are read
  int substitutions_ = 0;                // whose output is followed
};

constexpr const char* kEndsAsOnWindows =
    "the lines end as on Windows (CR LF), which is read here as LF; bash takes the CR for a part of "
    "the last "
    "word of its line, and a '\\' before it joins no lines: `dos2unix` mends the file";

}  // namespace

RunArguments read_run_script(std::string_view text, const RunVariables& set, const std::string& path) {
  const std::string lines = with_plain_lines(text);
  RunArguments run = ScriptReader(set, path).arguments(lines);
  run.kind = RunFileKind::script;
  if (lines.size() < text.size()) run.notes.emplace_back(kEndsAsOnWindows);
  constexpr const char* kConnections = "CUDA_DEVICE_MAX_CONNECTIONS";
  const auto handed_on =
      run.environment.contains(kConnections) ? std::nullopt : value_handed_on(text, kConnections);
  if (handed_on) run.environment[kConnections] = *handed_on;
  return run;
}

}  // namespace verify
