#include "verify/run_arguments/script_reader.h"

#include <algorithm>
#include <fmt/format.h>

#include "sim/base/error.h"
#include "verify/run_arguments/shell_condition.h"

namespace verify {

using CommandKind = ShellCommand::Kind;

namespace {

constexpr std::size_t kMostCommands = 200'000;
constexpr int kMostDepth = 200;
constexpr std::size_t kMostCalls = 16;  // one inside of the other
constexpr int kMostRounds = 1000;       // of a loop without a list
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
    : values_(set), launches_(values_), files_(path) {
  values_.state.calls.front().arguments.name = files_.script();
  open_files_.push_back(files_.script());
  if (!path.empty()) values_.define("BASH_SOURCE", files_.script(), 0);
  values_.output_of = [this](const ShellList& commands) {
    const Counted counted(substitutions_), condition(conditions_);
    ShellState& state = values_.state;
    const std::optional<std::string> outer = std::exchange(state.output, "");
    const std::string outer_asked = std::exchange(state.output_asked, "");
    const ShellStatus status = state.status;
    in_shell([&] { run(commands); });
    std::optional<std::string> text = std::exchange(state.output, outer);
    const std::string asked = std::exchange(state.output_asked, outer_asked);
    state.status = status;
    while (text && text->ends_with('\n')) text->pop_back();
    return std::pair(std::move(text), asked);
  };
}

void ScriptReader::read(std::string_view text) {
  // The options of the shell stand in the first line, which is like "#!/bin/bash -e".
  const std::string_view first = text.substr(0, text.find('\n'));
  values_.state.ends_by_failure = first.starts_with("#!") && first.ends_with(" -e");
  run_script(parse_shell(text), true);
  if (launches_.size() == 0) read_what_is_not_started();
}

RunArguments ScriptReader::arguments() {
  RunArguments run = launches_.arguments(world_, values_.state.goes_on ? ScriptEnd() : ended_);
  for (const auto& [path, text] : files_.texts()) run.other_texts.push_back(text);
  return run;
}

void ScriptReader::run(const ShellList& commands) {
  const Counted depth(depth_);
  if (depth_ > kMostDepth) {
    sim::refuse({.code = "script_syntax",
                 .option = commands.empty() ? "--from" : fmt::format("line {}", commands.front().line),
                 .numbers = fmt::format("subshells, loops or calls nested more than {} deep", kMostDepth),
                 .rule = "a launch script is nested a few levels deep",
                 .hint = "the command line alone"});
  }
  for (std::size_t i = 0; i < commands.size() && values_.state.goes_on; ++i) {
    const bool is_asked = i + 1 < commands.size() && !commands[i + 1].chain.empty();
    conditions_ += is_asked ? 1 : 0;
    run_chained(commands[i]);
    conditions_ -= is_asked ? 1 : 0;
  }
}

/// Runs a command that may stand behind && or ||.
void ScriptReader::run_chained(const ShellCommand& command) {
  if (command.chain.empty()) return run(command);
  const bool is_and = command.chain == "&&";
  const ShellStatus before = values_.state.status;
  std::optional<ShellStatus> own;
  const ShellList list;
  const Path runs{[&] {
                    run(command);
                    if (values_.state.goes_on) own = values_.state.status;
                  },
                  nullptr};
  const Path skips{[] {}, nullptr};
  const bool is_skipped = before.success == !is_and;
  if (is_skipped) leave_unassigned({command});
  decide(before, is_and ? runs : skips, is_and ? skips : runs);
  if (!values_.state.goes_on || is_skipped) return;
  if (own) values_.state.status = is_and ? both(before, *own) : either(before, *own);
  if (!own) values_.state.status = {.success = !is_and};
}

void ScriptReader::run(const ShellCommand& command) {
  if (command.is_negated) ++conditions_;
  run_redirected(command);
  if (command.is_negated) --conditions_;
  if (!values_.state.goes_on) return;
  if (command.is_negated) values_.state.status = opposite(values_.state.status);
  end_by_failure(command);
}

/// Ends the script under `set -e` with a command that has certainly failed.
void ScriptReader::end_by_failure(const ShellCommand& command) {
  const bool is_block = command.kind != CommandKind::simple && command.kind != CommandKind::test &&
                        command.kind != CommandKind::arithmetic;
  const ShellStatus& status = values_.state.status;
  const bool has_failed = status.success == false && status.empty_if_false.empty();
  if (!has_failed || is_block || command.is_negated || conditions_ > 0 || !values_.state.ends_by_failure)
    return;
  exit(command, {});
}

/// Runs a command whose output may go to a file. A file that the script writes can be started by it.
void ScriptReader::run_redirected(const ShellCommand& command) {
  if (command.output == nullptr) return run_kind(command);
  const Counted counted(substitutions_);
  ShellState& state = values_.state;
  const std::optional<std::string> outer = std::exchange(state.output, "");
  run_kind(command);
  std::optional<std::string> text = std::exchange(state.output, outer);
  const std::string path = values_.whole(*command.output).text;
  const bool is_known =
      path.find(kUnknownBegin) == std::string::npos && state.folder && !path.starts_with('&');
  const std::string file = is_known ? files_.path_of(path, *state.folder) : "";
  if (file.empty() || file == "/dev/null") return;
  std::optional<std::string>& kept = state.files[file];
  kept = text && command.appends ? std::optional(kept.value_or("") + *text) : text;
}

void ScriptReader::run_kind(const ShellCommand& command) {
  switch (command.kind) {
    case CommandKind::simple:
      return run_simple(command);
    case CommandKind::arithmetic:
      return run_arithmetic(command);
    case CommandKind::test:
      values_.state.status = shell_test(command.words, true, values_);
      return;
    case CommandKind::group:
      return run(command.lists[0]);
    case CommandKind::subshell:
      in_shell([&] { run(command.lists[0]); });
      if (command.name == "&") values_.state.status = {.success = true};
      return;
    case CommandKind::pipeline:
      return run_pipeline(command);
    case CommandKind::branch:
      return run_branch(command);
    case CommandKind::choice:
      return run_choice(command, 0, values_.whole(command.words[0]));
    case CommandKind::function:
      values_.state.functions[command.name] = std::make_shared<const ShellList>(command.lists[0]);
      return;
    default:
      return run_loop(command);
  }
}

/// Remembers variables that a branch which is not taken would give arguments. They are the script's own, and
/// empty as long as nothing else gives them a value.
void ScriptReader::leave_unassigned(const ShellList& commands) {
  for (const ShellCommand& command : commands) {
    for (const ShellAssignment& assignment : command.assignments) {
      const bool gives_arguments = std::ranges::any_of(assignment.values, [](const ShellWord& word) {
        return std::ranges::any_of(word.parts, [](const ShellPart& part) {
          return part.kind == ShellPart::Kind::literal && part.text.find("--") != std::string::npos;
        });
      });
      if (gives_arguments && assignment.index == nullptr) values_.state.own.insert(assignment.name);
    }
    for (const ShellList& list : command.lists) leave_unassigned(list);
  }
}

/// Notes that the script needs variables, since it ends where they are empty. From there on they have values.
void ScriptReader::require(const std::set<std::string>& names, int line) {
  for (const std::string& name : names) {
    values_.need(name, line);
    if (!whole_number(name)) values_.forget(name, line, "the script ends before its training without it");
  }
}

void ScriptReader::join(std::vector<ShellState> ends, bool has_exited, const ShellState& before,
                        const std::string& asked) {
  if (!ends.empty()) {
    values_.state = values_.joined(std::move(ends), before, asked);
    return;
  }
  values_.state.goes_on = false;
  values_.state.has_exited = has_exited;
}

/// Runs one of two paths, or both where nobody knows which one runs.
void ScriptReader::decide(const ShellStatus& status, const Path& yes, const Path& no) {
  if (!status.success) return run_both(status, yes, no);
  const Path& taken = *status.success ? yes : no;
  const Path& other = *status.success ? no : yes;
  const std::set<std::string>& empty = *status.success ? status.empty_if_true : status.empty_if_false;
  if (other.commands != nullptr) leave_unassigned(*other.commands);
  if (empty.empty()) return taken.run();
  const ShellState before = values_.state;
  taken.run();
  // It runs as variables have no value from outside. Where it ends the script, they have one in a run.
  if (!values_.state.has_exited) return;
  values_.state = before;
  require(empty, ended_.line);
  other.run();
}

void ScriptReader::run_both(const ShellStatus& status, const Path& yes, const Path& no) {
  const ShellState before = values_.state;
  yes.run();
  const int line = ended_.line;
  const ShellState after_yes = std::exchange(values_.state, before);
  no.run();
  const ShellState after_no = values_.state;
  std::vector<ShellState> ends;
  for (const ShellState* end : {&after_yes, &after_no})
    if (end->goes_on) ends.push_back(*end);
  join(std::move(ends), after_yes.has_exited && after_no.has_exited, before, status.asked);
  settle(status.empty_if_true, before, after_yes, line);
  settle(status.empty_if_false, before, after_no, ended_.line);
}

/// Follows what a path says about the variables without a value from outside that lead to it: it gives them
/// defaults, or the script needs them, since the path ends it.
void ScriptReader::settle(const std::set<std::string>& names, const ShellState& before,
                          const ShellState& path, int line) {
  if (!values_.state.goes_on) return;
  if (path.has_exited) return require(names, line);
  for (const std::string& name : names) {
    const auto found = path.variables->find(name);
    if (path.goes_on && found != path.variables->end() && !before.variables->contains(name))
      values_.give_back({{name, found->second}});
  }
}

ShellStatus ScriptReader::asked(const ShellList& condition) {
  const Counted counted(conditions_);
  run(condition);
  return values_.state.status;
}

void ScriptReader::run_branch(const ShellCommand& branch) {
  const ShellStatus status = asked(branch.lists[0]);
  if (!values_.state.goes_on) return;
  const bool has_other = branch.lists.size() > 2;
  values_.state.status = {.success = true};
  decide(status, {[&] { run(branch.lists[1]); }, &branch.lists[1]},
         {[&] {
            if (has_other) run(branch.lists[2]);
          },
          has_other ? &branch.lists[2] : nullptr});
}

/// Runs the commands of a pattern, and of those that follow it where they end with ";&" or ";;&".
void ScriptReader::run_choice_body(const ShellCommand& choice, std::size_t at, const ShellField& subject) {
  for (; at < choice.lists.size() && values_.state.goes_on; ++at) {
    run(choice.lists[at]);
    if (choice.patterns[at].ending == ";;&" && values_.state.goes_on)
      return run_choice(choice, at + 1, subject);
    if (choice.patterns[at].ending != ";&") return;
  }
}

void ScriptReader::run_choice(const ShellCommand& choice, std::size_t first, const ShellField& subject) {
  const ShellState before = values_.state;
  std::vector<ShellState> ends;
  bool may_go_on = true, have_exited = true;
  for (std::size_t at = first; at < choice.lists.size(); ++at) {
    const auto fits = may_go_on ? fits_one_of(choice.patterns[at].words, subject, values_) : false;
    if (fits == false) leave_unassigned(choice.lists[at]);
    if (fits == false) continue;
    values_.state = before;
    values_.state.status = {.success = true};
    run_choice_body(choice, at, subject);
    if (values_.state.goes_on) ends.push_back(values_.state);
    have_exited = have_exited && (values_.state.has_exited || values_.state.goes_on);
    may_go_on = !fits;
  }
  if (may_go_on) {
    values_.state = before;
    values_.state.status = {.success = true};
    ends.push_back(values_.state);
  }
  join(std::move(ends), have_exited, before, values_.variable_of(subject.text));
}

void ScriptReader::run_loop(const ShellCommand& loop) {
  if (loop.kind == CommandKind::repeat) {
    const auto condition = [&] {
      const ShellStatus status = asked(loop.lists[0]);
      return loop.is_opposite ? opposite(status) : status;
    };
    return run_rounds({.line = loop.line, .begins_round = condition, .body = &loop.lists[1]});
  }
  if (loop.kind == CommandKind::counted) {
    const auto number = [this, &loop](std::size_t at) {
      return values_.number_of(values_.whole(loop.words[at]).text, loop.line);
    };
    const auto condition = [&] {
      const auto value = loop.words[1].parts.empty() ? std::optional<std::int64_t>(1) : number(1);
      return ShellStatus{.success = value ? std::optional(*value != 0) : std::nullopt};
    };
    number(0);
    return run_rounds(
        {.line = loop.line, .begins_round = condition, .body = &loop.lists[0], .step = [&] { number(2); }});
  }
  const Words list = values_.expand(loop.words);
  const bool is_known = std::ranges::none_of(
      list, [](const ShellField& word) { return word.has_unknown() || word.may_be_many; });
  std::size_t next = 0;
  const auto begins = [&]() -> ShellStatus {
    if (!is_known) values_.forget(loop.name, loop.line, "it takes several values in a loop");
    if (!is_known) return {};
    if (next < list.size()) values_.define(loop.name, list[next].text, loop.line);
    return {.success = next++ < list.size()};
  };
  run_rounds({.line = loop.line, .begins_round = begins, .body = &loop.lists[0], .is_of_list = true});
}

/// Runs a loop round by round, as long as it is known that there is another one.
void ScriptReader::run_rounds(const Loop& loop) {
  const ShellState before = values_.state;
  targets_.push_back({.kind = Target::Kind::loop, .leaves = {}, .continues = {}});
  values_.state.status = {.success = true};
  for (int round = 0; values_.state.goes_on; ++round) {
    const ShellState begin = values_.state;
    const ShellStatus last = values_.state.status;
    const ShellStatus status = loop.begins_round();
    values_.state.status = last;
    if (!values_.state.goes_on || status.success == false) break;
    if (!status.success || (round == kMostRounds && !loop.is_of_list)) {
      run_unknown_rounds(loop);
      break;
    }
    run_round(loop);
    const bool is_endless = !loop.is_of_list && are_same(begin, values_.state);
    if (is_endless) values_.state.goes_on = false;
  }
  std::vector<ShellState> ends = std::move(targets_.back().leaves);
  targets_.pop_back();
  if (values_.state.goes_on) ends.push_back(values_.state);
  join(std::move(ends), values_.state.has_exited, before, "");
}

/// Runs a round, which may end with `continue`.
void ScriptReader::run_round(const Loop& loop) {
  const ShellState before = values_.state;
  run(*loop.body);
  std::vector<ShellState> ends = std::exchange(targets_.back().continues, {});
  if (values_.state.goes_on) ends.push_back(values_.state);
  join(std::move(ends), values_.state.has_exited, before, "");
  if (values_.state.goes_on) loop.step();
}

/// Runs a loop of which nobody knows how many rounds it has: until another round makes no difference.
void ScriptReader::run_unknown_rounds(const Loop& loop) {
  const std::size_t launches = launches_.size(), leaves = targets_.back().leaves.size();
  for (int pass = 0;; ++pass) {
    const ShellState entry = values_.state;
    launches_.cut(launches);
    targets_.back().leaves.resize(leaves);
    run_round(loop);
    if (values_.state.goes_on) loop.begins_round();
    if (!values_.state.goes_on) {
      values_.state = entry;
      return;
    }
    values_.state.status = {};
    ShellState again = values_.joined({entry, values_.state}, entry, "", true);
    const bool is_done = are_same(entry, again) || pass == kMostPasses;
    values_.state = std::move(again);
    if (pass == kMostPasses) values_.forget_all(loop.line);
    if (is_done) return;
    for (const auto& [name, value] : ShellVariables(*values_.state.variables)) {
      const auto old = entry.variables->find(name);
      const bool changes = old == entry.variables->end() || old->second->fields != value->fields;
      if (changes && pass > 1) values_.forget(name, loop.line, "it changes in a loop");
    }
  }
}

/// Runs commands in a shell of their own. Of what they change, their output and the files they write are
/// left.
void ScriptReader::in_shell(const Step& commands) {
  const ShellState before = values_.state;
  targets_.push_back({.kind = Target::Kind::shell, .leaves = {}, .continues = {}});
  commands();
  std::vector<ShellState> ends = std::move(targets_.back().leaves);
  targets_.pop_back();
  if (values_.state.goes_on) ends.push_back(values_.state);
  join(std::move(ends), false, before, "");
  ShellState after = std::exchange(values_.state, before);
  values_.state.output = std::move(after.output);
  values_.state.output_asked = std::move(after.output_asked);
  values_.state.files = std::move(after.files);
  values_.state.status = std::move(after.status);
}

/// Runs the commands of a pipeline, each of which gets the output of the one before.
void ScriptReader::run_pipeline(const ShellCommand& pipeline) {
  ShellState& state = values_.state;
  const Counted counted(substitutions_), condition(conditions_);
  const std::optional<std::string> outer = state.output, input = piped_;
  for (const ShellList& list : pipeline.lists) {
    state.output = "";
    in_shell([&] { run(list); });
    piped_ = state.output;
    if (piped_ && state.output_asked.empty()) state.output_asked = values_.variable_of(*piped_);
  }
  const std::string asked = state.output_asked;
  if (state.output != "") state.output.reset();
  if (state.output) state.output = outer;
  piped_ = input;
  state.status = {.asked = asked};
}

void ScriptReader::run_arithmetic(const ShellCommand& command) {
  const std::string expression = values_.whole(command.words[0]).text;
  const auto number = values_.number_of(expression, command.line);
  values_.state.status = {.success = number ? std::optional(*number != 0) : std::nullopt,
                          .asked = values_.asked_of_number()};
}

/// Runs what `return` leaves, with arguments of its own where there are some.
void ScriptReader::enter(const Step& commands, std::optional<ShellArguments> arguments) {
  const ShellState before = values_.state;
  if (arguments) values_.state.calls.push_back({.arguments = *arguments, .outer = {}});
  values_.state.status = {.success = true};
  targets_.push_back({.kind = Target::Kind::call, .leaves = {}, .continues = {}});
  commands();
  std::vector<ShellState> ends = std::move(targets_.back().leaves);
  targets_.pop_back();
  if (values_.state.goes_on) ends.push_back(values_.state);
  join(std::move(ends), values_.state.has_exited, before, "");
  if (arguments && values_.state.goes_on) values_.end_call();
}

/// Runs the commands of a function. One that gets "$@" alone has the arguments around it.
void ScriptReader::call(const std::shared_ptr<const ShellList>& body, const ShellCommand& command,
                        const Words& words) {
  if (body == nullptr || values_.state.calls.size() > kMostCalls) {
    values_.state.status = {};
    print(std::nullopt, "");
    return values_.forget_all(command.line);
  }
  called_.insert(words[0].text);
  const ShellArguments& outer = values_.state.calls.back().arguments;
  const bool hands_on = command.words.size() == 2 && command.words[1].parts.size() == 1 &&
                        command.words[1].parts[0].text == "@" && command.words[1].parts[0].is_quoted;
  ShellArguments arguments = outer;
  if (!hands_on || outer.are_known)
    arguments = {.are_known = true, .fields = {words.begin() + 1, words.end()}, .name = outer.name};
  enter([&] { run(*body); }, std::move(arguments));
}

void ScriptReader::run_simple(const ShellCommand& command) {
  if (++commands_ > kMostCommands) {
    sim::refuse({.code = "run_file_size",
                 .option = fmt::format("line {}", command.line),
                 .numbers = fmt::format("more than {} commands", kMostCommands),
                 .rule = "a launch script runs few commands",
                 .hint = "the command line alone"});
  }
  const Words words = values_.expand(command.words);
  if (words.empty()) {
    values_.state.status = {.success = true};
    for (const ShellAssignment& assignment : command.assignments) {
      values_.assign(assignment);
      const bool has_output = std::ranges::any_of(assignment.values, [](const ShellWord& word) {
        return std::ranges::any_of(
            word.parts, [](const ShellPart& part) { return part.kind == ShellPart::Kind::output; });
      });
      if (has_output) values_.state.status = {};
    }
    return;
  }
  // Assignments before a word are those of the command alone.
  ShellVariables outer;
  const std::size_t given = given_.size();
  for (const ShellAssignment& assignment : command.assignments) {
    const auto old = values_.state.variables->find(assignment.name);
    outer.try_emplace(assignment.name, old == values_.state.variables->end() ? nullptr : old->second);
    given_.push_back(assignment.name);
    values_.assign(assignment);
    values_.export_variable(assignment.name);
  }
  run_words(command, words);
  given_.resize(given);
  if (values_.state.goes_on) values_.give_back(outer);
}

void ScriptReader::run_words(const ShellCommand& command, const Words& words) {
  const auto function = values_.state.functions.find(words[0].text);
  if (function != values_.state.functions.end()) return call(function->second, command, words);
  const Builtin follow = builtin(words[0].text);
  if (follow == nullptr) return start(command, words);
  if (words[0].text != "return" && words[0].text != "exit") values_.state.status = {.success = true};
  (this->*follow)(command, words);
}

/// Leaves loops, a function or a shell: what is behind runs with the state from here. Returns whether there
/// is something to leave.
bool ScriptReader::leaves(Target::Kind kind, std::int64_t levels, bool continues) {
  auto target = targets_.rbegin();
  if (kind == Target::Kind::loop) {
    if (target == targets_.rend() || target->kind != kind) return false;
    for (; levels > 1 && target + 1 != targets_.rend() && (target + 1)->kind == kind; --levels) ++target;
  }
  while (target != targets_.rend() && target->kind != kind && target->kind != Target::Kind::shell) ++target;
  if (target == targets_.rend()) return false;
  values_.charge(sizeof(ShellState), 0);
  (continues ? target->continues : target->leaves).push_back(values_.state);
  values_.state.goes_on = false;
  return true;
}

}  // namespace verify
