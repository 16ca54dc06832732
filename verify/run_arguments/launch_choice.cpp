#include "verify/run_arguments/launch_choice.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iterator>
#include <optional>
#include <utility>

#include "sim/base/printable_text.h"
#include "verify/output/refusal_table.h"
#include "verify/run_arguments/launch_arguments.h"
#include "verify/run_arguments/launch_mistakes.h"

namespace verify {

namespace {

constexpr std::size_t kMostSentences = 5, kMostStarted = 100, kMostOfAHint = 80;

/// Whether a script that is sourced is one that makes programs known, and gives a training no arguments.
bool sets_up_programs(std::string_view file) {
  constexpr std::array<std::string_view, 11> kNames = {
      "activate",      "conda.sh",   "profile",    ".profile", "bashrc",    ".bashrc",
      ".bash_profile", "setvars.sh", "set_env.sh", "modules",  "modules.sh"};
  return std::ranges::find(kNames, base_name(file)) != kNames.end();
}

std::string line_of(int line) { return fmt::format("line {}", line); }

/// Returns the variables that the file assigns, in the order in which it does.
std::vector<std::pair<std::string, const ShellValue*>> assigned(const ShellVariables& variables) {
  std::vector<std::pair<std::string, const ShellValue*>> all;
  for (const auto& [name, value] : variables)
    if (name != "BASH_SOURCE" && name != "0") all.emplace_back(name, value.get());
  std::ranges::sort(all, {}, [](const auto& entry) { return entry.second->order; });
  return all;
}

}  // namespace

void LaunchChoice::add(const ShellFields& words, int line) {
  std::optional<LaunchCommand> launch = launch_of(words, values_);
  const auto script = started_script(words);
  const bool is_started = script != words.end() && started_.size() < kMostStarted;
  if (is_started && (!launch || launch->is_program))
    started_.push_back({.script = std::string(base_name(values_.shown(script->text))), .line = line});
  if (!launch) return;
  starts_script_ = starts_script_ || !launch->is_program;
  if (is_no_training(*launch)) {
    other_work_ = base_name(launch->script);
    return;
  }
  launch->line = line;
  launch->variables = values_.state.variables;
  if (gives_overrides(launch->arguments, values_)) overriding_ = launch;
  const bool has_arguments = std::ranges::any_of(
      launch->arguments, [](const ShellField& word) { return is_flag(word.text) || word.has_unknown(); });
  if (has_arguments) launches_.push_back(*std::move(launch));
}

void LaunchChoice::add_arguments(const ShellFields& words, int line, bool is_in_document) {
  const bool goes_on = !launches_.empty() && launches_.back().script.empty();
  if (!goes_on) launches_.push_back({.line = line});
  LaunchCommand& launch = launches_.back();
  launch.variables = values_.state.variables;
  launch.arguments.insert(launch.arguments.end(), words.begin(), words.end());
  launch.is_apart = launch.is_apart || !is_in_document;
}

void LaunchChoice::add_launcher(std::size_t first, const ShellFields& words) {
  for (; first < launches_.size(); ++first) {
    ShellFields& before = launches_[first].before;
    before.insert(before.begin(), words.begin(), words.end());
  }
}

void LaunchChoice::keep_what_is_not_known(const ShellFields& words) {
  const auto script = training_script(words);
  for (auto word = words.begin(); word != script; ++word) {
    std::vector<Unresolved> unknown = values_.unresolved(word->text);
    if (std::ranges::none_of(unknown, [](const Unresolved& one) { return looks_like_a_launch(one.text); }))
      continue;
    values_.charge(unknown.size() * sizeof(Unresolved), word->line);
    std::ranges::move(unknown, std::back_inserter(not_known_));
  }
}

void LaunchChoice::keep_sourced(const ShellField& file, int line) {
  if (sets_up_programs(file.text) || started_.size() == kMostStarted) return;
  started_.push_back({.script = std::string(base_name(values_.shown(file.text))),
                      .line = line,
                      .is_sourced = true,
                      .may_replace = !assigned(*values_.state.variables).empty()});
}

void LaunchChoice::keep_assigning(const ShellField& word, int line) {
  keep_sentence(fmt::format("line {} may give variables other values, which are not known: {}", line,
                            sim::printable_text(values_.shown(word.text).substr(0, kMostOfAHint))));
}

void LaunchChoice::keep_sentence(const std::string& sentence) {
  const bool is_new = std::ranges::find(sentences_, sentence) == sentences_.end();
  if (is_new && sentences_.size() < kMostSentences) sentences_.push_back(sentence);
}

/// For a file without a command: its variables that hold arguments. Those for torchrun give the world size.
void LaunchChoice::take_assigned_arguments() {
  LaunchCommand launch{.variables = values_.state.variables};
  for (const auto& [name, value] : assigned(*launch.variables)) {
    ShellFields words;
    for (const ShellField& field : value->fields) append_words(field, words);
    const auto begin = std::ranges::find_if(words, [](const ShellField& word) { return is_flag(word.text); });
    if (begin == words.end() ||
        !std::all_of(words.begin(), begin, [](const ShellField& word) { return word.has_unknown(); }))
      continue;
    const bool is_of_torchrun = std::any_of(begin, words.end(), [](const ShellField& word) {
      const std::string option = run_argument_name(word.text.substr(0, word.text.find('=')));
      return option == "nnodes" || option == "nproc-per-node";
    });
    if (is_of_torchrun) {
      launch.before.push_back({"torchrun", begin->line});
      launch.before.insert(launch.before.end(), begin, words.end());
    } else {
      launch.line = launch.line == 0 ? begin->line : launch.line;
      launch.arguments.insert(launch.arguments.end(), words.begin(), words.end());
    }
  }
  if (!launch.arguments.empty()) launches_.push_back(std::move(launch));
}

/// Takes the variables whose values are known. Those that are not exported do no harm: no rule reads them.
/// Those that a scheduler gives are no misspelling of another one.
void LaunchChoice::take_variables(const LaunchCommand& launch, RunArguments& run) const {
  for (const auto& [name, value] : assigned(*launch.variables)) {
    const bool is_known = std::ranges::none_of(value->fields, &ShellField::has_unknown);
    if (is_known && value->fields.size() == 1) run.environment[name] = value->fields.front().text;
    if (is_known && !name.starts_with("SLURM_")) run.variables.push_back(name);
  }
}

/// Keeps the commands of this property alone, if there are any.
void LaunchChoice::keep_those_that(bool (*has_property)(const LaunchCommand&)) {
  if (std::ranges::none_of(launches_, has_property)) return;
  std::erase_if(launches_, [&](const LaunchCommand& launch) { return !has_property(launch); });
}

/// Refuses arguments that a shell would take for a command: the line before them does not go on.
void LaunchChoice::refuse_arguments_apart() const {
  const auto apart =
      std::ranges::find_if(launches_, [](const LaunchCommand& l) { return l.is_apart && says_training(l); });
  if (!starts_script_ || apart == launches_.end()) return;
  refuse_by("arguments_apart", line_of(apart->line),
            sim::printable_text(values_.shown(apart->arguments.front().text)));
}

/// Refuses a text in which no launch is found. Where a word that is not known may be the command, that is
/// told.
void LaunchChoice::refuse_no_launch(int line_of_exit) const {
  if (!not_known_.empty()) {
    const Unresolved& last = not_known_.back();
    refuse_by("run_without_arguments/command", line_of(last.line),
              sim::printable_text(last.text.substr(0, 100)), last.reason,
              last.variable.empty() ? "the command line alone, as a text file"
                                    : fmt::format("--set {}=VALUE", last.variable));
  }
  std::vector<std::string> names;
  for (const Started& started : started_)
    if (std::ranges::find(names, started.script) == names.end()) names.push_back(started.script);
  const std::string command = "command that gives arguments to a Python file";
  std::string numbers = "a text without a " + command;
  if (line_of_exit != 0)
    numbers = fmt::format("the script ends with the `exit` of line {}, before a {}", line_of_exit, command);
  if (!other_work_.empty()) numbers += fmt::format("; {} is no training", sim::printable_text(other_work_));
  if (names.size() > 1) numbers += fmt::format("; it starts {}", fmt::join(names, ", "));
  std::string hint = "the run's log, or the command line that starts the run";
  if (!started_.empty())
    hint = fmt::format("--from {}, which line {} starts", names.back(), started_.back().line);
  refuse_by("run_without_arguments/launch", "--from", numbers, hint);
}

/// Adds sentences about how the file was read.
void LaunchChoice::add_notes(const LaunchCommand& launch, bool has_command, RunArguments& run) const {
  std::string used;
  if (!started_.empty())
    used = fmt::format(", and may be used by {}, which line {} starts", started_.back().script,
                       started_.back().line);
  if (launches_.size() > 1)
    run.notes.push_back(fmt::format("the file has {} commands with arguments; the last one, line {}, is read",
                                    launches_.size(), launch.line));
  if (!has_command)
    run.notes.push_back("the file has no command; the arguments that it assigns are read" + used);
  if (launch.is_program)
    run.notes.push_back(
        fmt::format("line {} gives the arguments to {}, which may change them before a training gets them",
                    launch.line, sim::printable_text(run.script)));
  if (launch.in_one_word != 0)
    run.notes.push_back(
        fmt::format("line {} holds many arguments in one word; they are read as a script hands them on that "
                    "drops the quotes",
                    launch.in_one_word));
  run.notes.insert(run.notes.end(), sentences_.begin(), sentences_.end());
  if (has_command) add_missing_files(run);
}

/// Names the files that are sourced, and are not there, where they may change the arguments.
void LaunchChoice::add_missing_files(RunArguments& run) const {
  for (const Started& file : started_) {
    if (!file.is_sourced) continue;
    bool is_asked = false;
    for (Unresolved& unknown : run.unresolved) {
      if (unknown.reason != kNotAssigned || unknown.line < file.line) continue;
      unknown.reason = fmt::format("it is not assigned in the file, and {} of line {} is not there",
                                   file.script, file.line);
      is_asked = true;
    }
    if (!is_asked && !file.may_replace && values_.line_of_default < file.line) continue;
    run.unresolved.push_back(
        {.text = file.script, .line = file.line, .reason = "it is sourced, and is not beside the script"});
    run.notes.push_back(
        fmt::format("{}, which line {} sources, is not read: {}", file.script, file.line,
                    is_asked ? "a file that has its lines in the place of that line says what it assigns"
                             : "it may give other values to variables that are assigned before that line"));
  }
}

RunArguments LaunchChoice::arguments(LaunchWorld& world, int line_of_exit) {
  RunArguments run;
  const bool is_overriding = overriding_ && std::ranges::none_of(launches_, says_training);
  if (is_overriding) launches_ = {*overriding_};
  const bool has_command = !launches_.empty();
  if (!has_command && line_of_exit == 0 && other_work_.empty()) take_assigned_arguments();
  if (launches_.empty()) refuse_no_launch(line_of_exit);
  refuse_arguments_apart();
  keep_those_that(says_training);
  keep_those_that([](const LaunchCommand& launch) { return !launch.is_program; });
  keep_those_that(is_named_training);
  const LaunchCommand& launch = launches_.back();
  if (!launch.is_program) require_words_in_place(launch, values_);
  run.script = base_name(launch.script);
  world.read(launch.before, "");
  if (is_overriding) take_overrides(launch.arguments, values_, run);
  if (!is_overriding) take_arguments(launch, values_, world, run);
  take_world(world, values_, run);
  run.unresolved.insert(run.unresolved.end(), not_known_.begin(), not_known_.end());
  run.unresolved.insert(run.unresolved.end(), values_.needed().begin(), values_.needed().end());
  add_notes(launch, has_command, run);
  take_variables(launch, run);
  const auto visible = run.environment.find("CUDA_VISIBLE_DEVICES");
  run.contradictions = world.contradictions(visible == run.environment.end() ? "" : visible->second);
  return run;
}

}  // namespace verify
