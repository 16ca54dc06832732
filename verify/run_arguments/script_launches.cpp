#include "verify/run_arguments/script_launches.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iterator>
#include <optional>
#include <utility>

#include "sim/base/error.h"
#include "sim/base/printable_text.h"
#include "verify/run_arguments/argument_shapes.h"
#include "verify/run_arguments/launch_arguments.h"
#include "verify/run_arguments/launch_mistakes.h"
#include "verify/run_arguments/launch_overrides.h"

namespace verify {

namespace {

constexpr std::size_t kMostSentences = 5, kMostStarted = 100;

/// Whether a word gives torchrun its processes.
bool is_of_torchrun(std::string_view word) {
  const std::string name = run_argument_name(word.substr(0, word.find('=')));
  return name == "nnodes" || name == "nproc-per-node";
}

/// Whether a script that is sourced is one that makes programs known, and gives a training no arguments.
bool sets_up_programs(std::string_view file) {
  constexpr std::array<std::string_view, 11> kNames = {
      "activate",      "conda.sh",   "profile",    ".profile", "bashrc",    ".bashrc",
      ".bash_profile", "setvars.sh", "set_env.sh", "modules",  "modules.sh"};
  return std::ranges::find(kNames, base_name(file)) != kNames.end();
}

/// ms-swift has the names of Megatron with "_", and "true" or "false" behind what is a flag of Megatron.
void take_words_of_swift(int line, RunArguments& run) {
  run.script = "megatron " + run.script;
  run.with_underscores.clear();
  std::erase_if(run.given, [](RunArgument& argument) {
    const bool is_flag = shape_of_argument(argument.name) == ArgumentShape::flag;
    if (!is_flag || argument.values.size() != 1) return false;
    const std::string word = argument.values.front();
    if (word == "true" || word == "True") argument.values.clear();
    return word == "false" || word == "False";
  });
  run.notes.emplace_back(
      "megatron of ms-swift takes the sizes of the model from its checkpoint, and has defaults of its own, "
      "such as --use-distributed-optimizer: what the command does not say is not known");
  constexpr const char* kEtp = "expert-tensor-parallel-size";
  if (std::ranges::find(run.given, kEtp, &RunArgument::name) != run.given.end()) return;
  run.given.push_back({kEtp, {"1"}, line});
  run.notes.emplace_back(
      "--expert-tensor-parallel-size is 1 where a command of ms-swift does not give it, from version 3.9 on");
}

/// Returns what ends a script: "the `exit` of line 7".
std::string end_of_script(const ScriptEnd& ended) {
  return ended.has_failed ? fmt::format("the command of line {}, which fails under `set -e`", ended.line)
                          : fmt::format("the `exit` of line {}", ended.line);
}

/// Returns the option that gives a variable this value, with a blank before it; "" where the value is not
/// known, or is too long for a hint.
std::string option_to_set(const std::string& name, const ShellField& value) {
  constexpr std::size_t kMostOfAHint = 80;
  if (value.has_unknown() || value.text.size() > kMostOfAHint) return "";
  const bool is_plain = value.text.find_first_of(" \t\n'\"$;&|<>*?(){}") == std::string::npos;
  const bool is_quotable = value.text.find('\'') == std::string::npos;
  if (!is_plain && !is_quotable) return "";
  const std::string text = sim::printable_text(value.text);
  return is_plain ? fmt::format(" --set {}={}", name, text) : fmt::format(" --set '{}={}'", name, text);
}

}  // namespace

void ScriptLaunches::add(const ShellFields& words, int line, const std::vector<std::string>& given) {
  std::optional<LaunchCommand> launch = launch_of(words, *values_);
  if (!launch || launch->is_program) keep_started(words, line, given);
  if (!launch) return;
  starts_script_ = starts_script_ || !launch->is_program;
  if (is_no_training(*launch)) {
    other_work_ = base_name(launch->script);
    return;
  }
  launch->line = line;
  launch->variables = values_->state.variables;
  if (gives_overrides(launch->arguments, *values_)) overriding_ = launch;
  const bool has_arguments = std::ranges::any_of(
      launch->arguments, [](const ShellField& word) { return is_flag(word.text) || word.has_unknown(); });
  if (has_arguments) launches_.push_back(*std::move(launch));
}

void ScriptLaunches::add_arguments(const ShellFields& words, int line, bool is_in_document) {
  const bool goes_on = !launches_.empty() && launches_.back().script.empty();
  if (!goes_on) launches_.push_back({.before = {}, .arguments = {}, .script = "", .line = line});
  LaunchCommand& launch = launches_.back();
  launch.variables = values_->state.variables;
  launch.arguments.insert(launch.arguments.end(), words.begin(), words.end());
  launch.is_apart = launch.is_apart || !is_in_document;
}

void ScriptLaunches::add_launcher(std::size_t first, const ShellFields& words) {
  for (; first < launches_.size(); ++first) {
    ShellFields& before = launches_[first].before;
    before.insert(before.begin(), words.begin(), words.end());
  }
}

void ScriptLaunches::keep_what_is_not_known(const ShellFields& words) {
  const auto script = training_script(words);
  for (auto word = words.begin(); word != script; ++word) {
    const std::vector<Unresolved> unknown = values_->unresolved(word->text);
    if (std::ranges::none_of(unknown, [](const Unresolved& one) { return looks_like_a_launch(one.text); }))
      continue;
    values_->charge(word->text.size() + sizeof(ShellField), word->line);
    not_known_.push_back(*word);
  }
}

/// Remembers the shell script that a command starts, and what the file gives it.
void ScriptLaunches::keep_started(const ShellFields& words, int line, const std::vector<std::string>& given) {
  const auto script = started_script(words);
  if (script == words.end() || started_.size() == kMostStarted) return;
  Started started{
      .script = std::string(base_name(values_->shown(script->text))), .options = {}, .line = line};
  for (const std::string& name : given) {
    const auto value = values_->find(name);
    if (value != nullptr && value->fields.size() == 1)
      started.options += option_to_set(name, value->fields.front());
  }
  for (auto argument = script + 1; argument != words.end(); ++argument)
    started.options += option_to_set(fmt::format("{}", argument - script), *argument);
  started_.push_back(std::move(started));
}

void ScriptLaunches::keep_sourced(const ShellField& file, int line) {
  if (sets_up_programs(file.text) || started_.size() == kMostStarted) return;
  const bool may_replace = std::ranges::any_of(*values_->state.variables, [](const auto& entry) {
    return entry.second->order > 0 && !entry.second->is_exported;
  });
  started_.push_back({.script = std::string(base_name(values_->shown(file.text))),
                      .options = {},
                      .line = line,
                      .is_sourced = true,
                      .may_replace = may_replace});
}

void ScriptLaunches::keep_assigning(const ShellField& word, int line) {
  keep_sentence(fmt::format("line {} may give variables other values, which are not known: {}", line,
                            sim::printable_text(values_->shown(word.text).substr(0, 80))));
}

void ScriptLaunches::keep_sentence(const std::string& sentence) {
  const bool is_new = std::ranges::find(sentences_, sentence) == sentences_.end();
  if (is_new && sentences_.size() < kMostSentences) sentences_.push_back(sentence);
}

/// Returns the variables that the file assigns, in the order in which it does.
std::vector<std::pair<std::string, const ShellValue*>> ScriptLaunches::assigned(
    const ShellVariables& variables) {
  std::vector<std::pair<std::string, const ShellValue*>> all;
  for (const auto& [name, value] : variables)
    if (name != "BASH_SOURCE") all.emplace_back(name, value.get());
  std::ranges::sort(all, {}, [](const auto& entry) { return entry.second->order; });
  return all;
}

/// For a file without a command: its variables that hold arguments. Those for torchrun give the world size.
void ScriptLaunches::take_assigned_arguments() {
  LaunchCommand launch{.before = {}, .arguments = {}, .script = "", .variables = values_->state.variables};
  for (const auto& [name, value] : assigned(*launch.variables)) {
    ShellFields words;
    for (const ShellField& field : value->fields) append_words(field, words);
    const auto is_argument = [](const ShellField& word) { return is_flag(word.text); };
    const auto begin = std::find_if(words.begin(), words.end(), is_argument);
    const bool holds_arguments =
        begin != words.end() && std::ranges::all_of(words.begin(), begin, &ShellField::has_unknown);
    if (!holds_arguments) continue;
    if (std::any_of(begin, words.end(), [](const ShellField& word) { return is_of_torchrun(word.text); })) {
      launch.before.push_back({"torchrun", begin->line});
      launch.before.insert(launch.before.end(), begin, words.end());
      continue;
    }
    launch.line = launch.line == 0 ? begin->line : launch.line;
    launch.arguments.insert(launch.arguments.end(), words.begin(), words.end());
  }
  if (!launch.arguments.empty()) launches_.push_back(std::move(launch));
}

/// Takes the variables whose values are known. Those that are not exported do no harm: no rule reads them.
/// Those that a scheduler gives are no misspelling of another one.
void ScriptLaunches::take_variables(const LaunchCommand& launch, RunArguments& run) const {
  for (const auto& [name, value] : assigned(*launch.variables)) {
    const bool is_known = std::ranges::none_of(value->fields, &ShellField::has_unknown);
    if (is_known && value->fields.size() == 1) run.environment[name] = value->fields.front().text;
    if (is_known && !name.starts_with("SLURM_")) run.variables.push_back(name);
  }
}

/// Keeps the commands of this property alone, if there are any.
void ScriptLaunches::keep_those_that(bool (*has_property)(const LaunchCommand&)) {
  if (std::none_of(launches_.begin(), launches_.end(), has_property)) return;
  std::erase_if(launches_, [&](const LaunchCommand& launch) { return !has_property(launch); });
}

/// Refuses arguments that a shell would take for a command: the line before them does not go on.
void ScriptLaunches::refuse_arguments_apart() const {
  const auto apart =
      std::ranges::find_if(launches_, [](const LaunchCommand& l) { return l.is_apart && says_training(l); });
  if (!starts_script_ || apart == launches_.end()) return;
  sim::refuse({.code = "arguments_apart",
               .option = fmt::format("line {}", apart->line),
               .numbers = fmt::format("'{}' begins a command of its own",
                                      sim::printable_text(values_->shown(apart->arguments.front().text))),
               .rule =
                   "a command ends with its line, unless the last character of the line is a '\\': a blank "
                   "behind it, an empty line, a comment or a ';' ends the command, too, and so does a line "
                   "break in $VARIABLE inside of bash -c \"...\"",
               .hint = "a '\\' as the last character of each line of the command but its last one"});
}

/// Refuses a script without a command that is known, where a word that is not known may be the command.
void ScriptLaunches::refuse_what_is_not_known() const {
  if (not_known_.empty()) return;
  const std::vector<Unresolved> unknown = values_->unresolved(not_known_.back().text);
  if (unknown.empty()) return;
  const Unresolved& first = unknown.front();
  sim::refuse({.code = "run_without_arguments",
               .option = fmt::format("line {}", first.line),
               .numbers = fmt::format("the command is '{}', and {}",
                                      sim::printable_text(first.text.substr(0, 100)), first.reason),
               .rule = "nothing is executed: the command that starts the training must be in the file",
               .hint = first.variable.empty() ? "the command line alone, as a text file"
                                              : fmt::format("--set {}=VALUE", first.variable)});
}

/// Refuses a text in which no launch is found.
void ScriptLaunches::refuse_no_launch(const ScriptEnd& ended) const {
  refuse_what_is_not_known();
  std::vector<std::string> names;
  for (const Started& started : started_)
    if (std::ranges::find(names, started.script) == names.end()) names.push_back(started.script);
  std::string numbers = "a text without a command that gives arguments to a Python file";
  if (ended.line != 0)
    numbers = fmt::format("the script ends with {}, before a command that gives arguments to a Python file",
                          end_of_script(ended));
  if (!other_work_.empty()) numbers += fmt::format("; {} is no training", sim::printable_text(other_work_));
  if (names.size() > 1) numbers += fmt::format("; it starts {}", fmt::join(names, ", "));
  sim::refuse({.code = "run_without_arguments",
               .option = "--from",
               .numbers = numbers,
               .rule = "a launch script or a command line holds '--flag value' behind its training script",
               .hint = started_.empty()
                           ? "the run's log, or the command line that starts the run"
                           : fmt::format("--from {}{}, which line {} starts", started_.back().script,
                                         started_.back().options, started_.back().line)});
}

/// Adds sentences about how the file was read.
void ScriptLaunches::add_notes(const LaunchCommand& launch, bool has_command, RunArguments& run) const {
  const auto note = [&](const std::string& sentence) { run.notes.push_back(sentence); };
  if (launches_.size() > 1)
    note(fmt::format("the file has {} commands with arguments; the last one, line {}, is read",
                     launches_.size(), launch.line));
  if (!has_command)
    note(fmt::format("the file has no command; the arguments that it assigns are read{}",
                     started_.empty() ? ""
                                      : fmt::format(", and may be used by {}, which line {} starts",
                                                    started_.back().script, started_.back().line)));
  if (launch.is_program)
    note(fmt::format("line {} gives the arguments to {}, which may change them before a training gets them",
                     launch.line, sim::printable_text(run.script)));
  if (launch.in_one_word != 0)
    note(
        fmt::format("line {} holds many arguments in one word; they are read as a script hands them on that "
                    "drops the quotes",
                    launch.in_one_word));
  for (const std::vector<std::string>* more : {&sentences_, &values_->notes()})
    run.notes.insert(run.notes.end(), more->begin(), more->end());
  if (has_command) add_missing_files(run);
}

/// Names the files that are sourced, and are not there, where they may change the arguments.
void ScriptLaunches::add_missing_files(RunArguments& run) const {
  for (const Started& file : started_) {
    bool is_asked = false;
    for (Unresolved& unknown : run.unresolved) {
      if (!file.is_sourced || unknown.reason != kNotAssigned || unknown.line < file.line) continue;
      unknown.reason = fmt::format("it is not assigned in the file, and {} of line {} is not there",
                                   file.script, file.line);
      is_asked = true;
    }
    if (!file.is_sourced || (!is_asked && !file.may_replace && values_->line_of_default() < file.line))
      continue;
    run.unresolved.push_back({.text = file.script,
                              .variable = {},
                              .argument = {},
                              .line = file.line,
                              .reason = "it is sourced, and is not beside the script"});
    run.notes.push_back(
        fmt::format("{}, which line {} sources, is not read: {}", file.script, file.line,
                    is_asked ? "a file that has its lines in the place of that line says what it assigns"
                             : "it may give other values to variables that are assigned before that line"));
  }
}

/// ms-swift starts torchrun itself, with the processes that two variables of the environment say.
void ScriptLaunches::read_world_of_swift(const LaunchCommand& launch, LaunchWorld& world) const {
  ShellFields words = {{"torchrun", launch.line}};
  for (const auto& [option, name] :
       {std::pair("--nnodes", "NNODES"), {"--nproc_per_node", "NPROC_PER_NODE"}}) {
    const auto value = launch.variables->find(name);
    if (value != launch.variables->end() && value->second->fields.size() == 1)
      words.insert(words.end(), {{option, launch.line}, value->second->fields.front()});
  }
  if (words.size() > 1) world.read(words, "");
}

RunArguments ScriptLaunches::arguments(LaunchWorld& world, const ScriptEnd& ended) {
  RunArguments run;
  const bool is_overriding = overriding_ && std::ranges::none_of(launches_, says_training);
  if (is_overriding) launches_ = {*overriding_};
  const bool has_command = !launches_.empty();
  if (!has_command && ended.line == 0 && other_work_.empty()) take_assigned_arguments();
  if (launches_.empty()) refuse_no_launch(ended);
  refuse_arguments_apart();
  keep_those_that(says_training);
  keep_those_that([](const LaunchCommand& launch) { return !launch.is_program; });
  keep_those_that(is_named_training);
  const LaunchCommand& launch = launches_.back();
  if (!launch.is_program) require_words_in_place(launch, *values_);
  run.script = base_name(launch.script);
  world.read(launch.before, "");
  if (is_of_swift(launch)) read_world_of_swift(launch, world);
  if (is_overriding) {
    take_overrides(launch.arguments, *values_, run);
  } else {
    take_arguments(launch.arguments, *values_, run);
  }
  if (is_of_swift(launch)) take_words_of_swift(launch.line, run);
  take_world(world, *values_, run);
  for (const ShellField& word : not_known_)
    std::ranges::move(values_->unresolved(word.text), std::back_inserter(run.unresolved));
  run.unresolved.insert(run.unresolved.end(), values_->needed().begin(), values_->needed().end());
  add_notes(launch, has_command, run);
  take_variables(launch, run);
  const auto visible = run.environment.find("CUDA_VISIBLE_DEVICES");
  run.contradictions = world.contradictions(visible == run.environment.end() ? "" : visible->second);
  return run;
}

}  // namespace verify
