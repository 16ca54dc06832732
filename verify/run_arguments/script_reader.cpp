#include "verify/run_arguments/script_reader.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "verify/run_arguments/shell_condition.h"

namespace verify {

namespace {

constexpr std::size_t kMostCommands = 200'000;
constexpr int kMostDepth = 200;
constexpr std::size_t kMostCalls = 16;  // one inside of the other
constexpr int kMostPasses = 10;

/// Counts as long as it is there.
class Counted {
 public:
  explicit Counted(int& count) : count_(count) { ++count_; }
  ~Counted() { --count_; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  int& count_;
};

bool are_same(const ShellState& a, const ShellState& b) {
  const ShellArguments &first = a.calls.back().arguments, &second = b.calls.back().arguments;
  return first.fields == second.fields && first.shifted == second.shifted &&
         std::ranges::equal(*a.variables, *b.variables, [](const auto& one, const auto& other) {
           return one.first == other.first && one.second->fields == other.second->fields;
         });
}

}  // namespace

ScriptReader::ScriptReader(const RunVariables& set, const std::string& path)
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

void ScriptReader::read(std::string_view text) {
  run_script(parse_shell(text), true);
  if (launches_.size() == 0) read_what_is_not_started();
}

RunArguments ScriptReader::arguments() {
  RunArguments run = launches_.arguments(world_, state_.goes_on ? 0 : line_of_exit_);
  for (const auto& [path, text] : files_.texts()) run.other_texts.push_back(text);
  return run;
}

void ScriptReader::run(const ShellList& commands) {
  const Counted depth(depth_);
  if (depth_ > kMostDepth) {
    refuse_script("script_syntax", commands.empty() ? 0 : commands.front().line,
                  fmt::format("subshells, loops or calls nested more than {} deep", kMostDepth),
                  "a launch script is nested a few levels deep", "the command line alone");
  }
  for (std::size_t i = 0; i < commands.size() && state_.goes_on; ++i) run_chained(commands[i]);
}

/// Runs a command that may stand behind && or ||.
void ScriptReader::run_chained(const ShellCommand& command) {
  if (command.chain.empty()) return run(command);
  const bool is_and = command.chain == "&&";
  const ShellStatus before = state_.status;
  if (before.success == !is_and) return leave_unassigned({command});
  std::optional<ShellStatus> own;
  const Step runs = [&] {
    run(command);
    if (state_.goes_on) own = state_.status;
  };
  const Step skips = [] {};
  decide(before, is_and ? runs : skips, is_and ? skips : runs);
  if (own) state_.status = is_and ? both(before, *own) : either(before, *own);
  if (!own) state_.status = {.success = !is_and};
}

/// Runs a command whose output may go to a file. A file that the script writes can be started by it.
void ScriptReader::run(const ShellCommand& command) {
  if (command.output.empty()) {
    run_kind(command);
  } else {
    const Counted counted(substitutions_);
    const std::optional<std::string> outer = std::exchange(state_.output, "");
    run_kind(command);
    const std::optional<std::string> text = std::exchange(state_.output, outer);
    const ShellField path = values_.whole(command.output.front());
    const bool is_known = !path.has_unknown() && state_.folder && !path.text.starts_with('&');
    const std::string file = is_known ? files_.path_of(path.text, *state_.folder) : "";
    std::optional<std::string> all = text;
    if (text && command.appends) all = state_.files[file].value_or("") + *text;
    if (!file.empty()) state_.files[file] = all;
  }
  if (command.is_negated) state_.status = opposite(state_.status);
}

void ScriptReader::run_kind(const ShellCommand& command) {
  switch (command.kind) {
    case Kind::simple:
      return run_simple(command);
    case Kind::arithmetic: {
      state_.status = {};
      const auto number =
          values_.number_of(values_.whole(command.words[0]).text, command.line, &state_.status.asked);
      if (number) state_.status.success = *number != 0;
      return;
    }
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

void ScriptReader::run_simple(const ShellCommand& command) {
  if (++commands_ > kMostCommands) {
    refuse_script("run_file_size", command.line, fmt::format("more than {} commands", kMostCommands),
                  "a launch script runs few commands", "the command line alone");
  }
  const Words words = values_.expand(command.words);
  std::vector<std::string> names;
  for (const ShellAssignment& assignment : command.assignments) names.push_back(assignment.name);
  const ShellVariables outer = values_.kept(names);
  for (const ShellAssignment& assignment : command.assignments) values_.assign(assignment);
  if (words.empty()) {
    // An output that is assigned has a success of its own.
    const bool may_fail = std::ranges::any_of(command.assignments, [](const ShellAssignment& one) {
      return std::ranges::any_of(one.values, [](const ShellWord& word) {
        return std::ranges::any_of(
            word.parts, [](const ShellPart& part) { return part.kind == ShellPart::Kind::output; });
      });
    });
    state_.status.success = may_fail ? std::nullopt : std::optional(true);
    if (!command.input.empty()) print(std::nullopt);  // $(< file)
    return;
  }
  // Assignments before a word are those of the command alone.
  for (const std::string& name : names) values_.export_variable(name);
  run_words(command, words);
  if (state_.goes_on) values_.give_back(outer);
}

void ScriptReader::run_words(const ShellCommand& command, const Words& words) {
  const auto function = state_.functions.find(words[0].text);
  if (function != state_.functions.end()) return call(function->second, command, words);
  const Builtin follow = builtin(words[0].text);
  if (follow == nullptr) return start(command, words);
  if (words[0].text != "return") state_.status = {.success = true};
  (this->*follow)(command, words);
}

/// Remembers variables that a branch which is not taken would give arguments. They are the script's own, and empty
/// as long as nothing else gives them a value.
void ScriptReader::leave_unassigned(const ShellList& commands) {
  for (const ShellCommand& command : commands) {
    for (const ShellAssignment& assignment : command.assignments)
      for (const ShellWord& word : assignment.values)
        for (const ShellPart& part : word.parts)
          if (part.text.find("--") != std::string::npos) state_.own.insert(assignment.name);
    for (const ShellList& list : command.lists) leave_unassigned(list);
  }
}

/// Notes that the script needs variables, since it ends where they are empty. From there on they have values.
void ScriptReader::require(const std::set<std::string>& names, int line) {
  for (const std::string& name : names) {
    values_.need(name, line);
    if (begins_shell_name(name[0]))
      values_.forget(name, line, "the script ends before its training without it");
  }
}

/// Goes on with the ends of branches that go on. `before` is the state from before them, if one has it.
void ScriptReader::join(std::vector<ShellState> ends, const ShellState* before, const std::string& asked) {
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
void ScriptReader::decide(const ShellStatus& status, const Step& yes, const Step& no) {
  const bool is_first = status.success.value_or(true);
  const Step& taken = is_first ? yes : no;
  const Step& other = is_first ? no : yes;
  const std::set<std::string>& empty = is_first ? status.empty_if_true : status.empty_if_false;
  if (status.success && empty.empty()) return taken();
  const ShellState before = state_;
  taken();
  const int line = line_of_exit_;
  if (status.success) {
    // It runs as variables have no value from outside. Where it ends the script, they have one in a run.
    if (!state_.has_exited) return;
    state_ = before;
    require(empty, line);
    return other();
  }
  const ShellState first = std::exchange(state_, before);
  other();
  const ShellState second = state_;
  join({first, second}, &before, status.asked);
  settle(status.empty_if_true, before, first, line);
  settle(status.empty_if_false, before, second, line_of_exit_);
}

/// Follows what a path says about the variables without a value from outside that lead to it: it gives them
/// defaults, or the script needs them, since the path ends it.
void ScriptReader::settle(const std::set<std::string>& names, const ShellState& before,
                          const ShellState& path, int line) {
  if (!state_.goes_on) return;
  if (path.has_exited) return require(names, line);
  for (const std::string& name : names) {
    const auto found = path.variables->find(name);
    const bool is_new = found != path.variables->end() && !before.variables->contains(name);
    if (path.goes_on && is_new) values_.give_back({{name, found->second}});
  }
}

void ScriptReader::run_branch(const ShellCommand& branch) {
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
void ScriptReader::run_choice(const ShellCommand& choice, std::size_t first, const ShellField& subject) {
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
void ScriptReader::run_loop(const ShellCommand& loop) {
  const auto is_open = [](const ShellField& word) { return word.has_unknown() || word.may_be_many; };
  const bool has_list = loop.kind == Kind::each;
  const Words list = has_list ? values_.expand(loop.words) : Words();
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
void ScriptReader::run_round(const ShellCommand& loop) {
  run(loop.lists[0]);
  std::vector<ShellState> ends = std::exchange(targets_.back().continues, {});
  ends.push_back(std::move(state_));
  join(std::move(ends), nullptr, "");
  if (loop.kind == Kind::counted) values_.number_of(values_.whole(loop.words[2]).text, loop.line);
}

/// Asks whether another round begins.
ShellStatus ScriptReader::begins_round(const ShellCommand& loop) {
  if (loop.kind == Kind::each) values_.forget(loop.name, loop.line, "it takes several values in a loop");
  if (loop.kind == Kind::each) return {};
  if (loop.kind == Kind::repeat) {
    run(loop.lists[1]);
    return loop.name == "until" ? opposite(state_.status) : state_.status;
  }
  const auto number = values_.number_of(values_.whole(loop.words[1]).text, loop.line);
  return {.success = number ? std::optional(*number != 0) : std::nullopt};
}

/// Runs a loop of which nobody knows how many rounds it has: until another round makes no difference.
void ScriptReader::run_unknown_rounds(const ShellCommand& loop) {
  const std::size_t launches = launches_.size(), leaves = targets_.back().leaves.size();
  for (int pass = 0;; ++pass) {
    const ShellState entry = state_;
    launches_.cut(launches);
    targets_.back().leaves.resize(leaves);
    if (begins_round(loop).success == false || !state_.goes_on) return;
    state_.status = {};
    const ShellState end = state_;
    run_round(loop);
    const ShellState again = state_.goes_on ? values_.joined({entry, state_}, entry, "", true) : entry;
    const bool is_done = are_same(entry, again) || pass == kMostPasses;
    state_ = is_done ? end : again;
    if (pass == kMostPasses) values_.forget_all(loop.line);
    if (is_done) return;
    for (const auto& [name, value] : *again.variables) {
      const auto old = entry.variables->find(name);
      const bool changes = old == entry.variables->end() || old->second->fields != value->fields;
      if (changes && pass > 1) values_.forget(name, loop.line, "it changes in a loop");
    }
  }
}

/// Runs what can be left, and goes on with the states in which it was.
void ScriptReader::enter(Target::Kind kind, const Step& commands) {
  state_.status = {.success = true};
  targets_.push_back({.kind = kind});
  commands();
  std::vector<ShellState> ends = std::move(targets_.back().leaves);
  targets_.pop_back();
  ends.push_back(std::move(state_));
  join(std::move(ends), nullptr, "");
}

/// Runs commands in a shell of their own. Of what they change, their output and the files they write are left.
void ScriptReader::in_shell(const Step& commands) {
  const ShellState before = state_;
  enter(Target::Kind::shell, commands);
  ShellState after = std::exchange(state_, before);
  state_.output = std::move(after.output);
  state_.output_asked = std::move(after.output_asked);
  state_.files = std::move(after.files);
  state_.status = std::move(after.status);
}

/// Runs the commands of a pipeline, each of which gets the output of the one before.
void ScriptReader::run_pipeline(const ShellCommand& pipeline) {
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
void ScriptReader::call(const std::shared_ptr<const ShellList>& body, const ShellCommand& command,
                        const Words& words) {
  state_.status = {};
  if (body == nullptr || state_.calls.size() > kMostCalls) {
    print(std::nullopt);
    return values_.forget_all(command.line);
  }
  called_.insert(words[0].text);
  ShellArguments arguments = state_.calls.back().arguments;
  const ShellPart* const handed =
      command.words.size() == 2 && command.words[1].parts.size() == 1 ? &command.words[1].parts[0] : nullptr;
  const bool hands_on = handed != nullptr && handed->text == "@" && handed->is_quoted && !arguments.are_known;
  if (!hands_on) arguments = {.are_known = true, .fields = {words.begin() + 1, words.end()}};
  state_.calls.push_back({.arguments = std::move(arguments)});
  enter(Target::Kind::call, [&] { run(*body); });
  if (!state_.goes_on) return;
  values_.give_back(state_.calls.back().outer);
  state_.calls.pop_back();
}

/// Leaves loops, a function or a shell: what is behind runs with the state from here. Returns whether there is
/// something to leave.
bool ScriptReader::leaves(Target::Kind kind, std::int64_t levels, bool continues) {
  auto target = targets_.rbegin();
  while (target != targets_.rend() && target->kind != kind && target->kind != Target::Kind::shell &&
         kind != Target::Kind::loop)
    ++target;
  if (target == targets_.rend() || (kind == Target::Kind::loop && target->kind != kind)) return false;
  for (; levels > 1 && target + 1 != targets_.rend() && (target + 1)->kind == kind; --levels) ++target;
  values_.charge(sizeof(ShellState), 0);
  (continues ? target->continues : target->leaves).push_back(state_);
  state_.goes_on = false;
  return true;
}

}  // namespace verify
