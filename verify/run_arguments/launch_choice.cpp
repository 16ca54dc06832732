#include "verify/run_arguments/launch_choice.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iterator>
#include <utility>

#include "sim/base/printable_text.h"
#include "verify/output/phrases.h"
#include "verify/output/refusal_table.h"
#include "verify/run_arguments/argument_table.h"
#include "verify/run_arguments/dialects.h"
#include "verify/run_arguments/launch_words.h"

namespace verify {

namespace {

constexpr std::size_t kMostSentences = 5, kMostStarted = 100, kMostOfAHint = 80;

/// Returns the variables that the file assigns, in the order in which it does.
std::vector<std::pair<std::string, const ShellValue*>> assigned(const ShellVariables& variables) {
  std::vector<std::pair<std::string, const ShellValue*>> all;
  for (const auto& [name, value] : variables)
    if (name != "BASH_SOURCE" && name != "0") all.emplace_back(name, value.get());
  std::ranges::sort(all, {}, [](const auto& entry) { return entry.second->order; });
  return all;
}

// ---- mistakes

/// Returns a word with its value cut off: "--seq-length" of "--seq-length=4".
std::string_view without_value(std::string_view word) { return word.substr(0, word.find('=')); }

bool is_known(std::string_view name) {
  constexpr std::size_t kShortest = 3;
  return name.size() >= kShortest && find_argument(run_argument_name(name)) != nullptr;
}

/// Whether a word may be the value of the one before it.
bool may_be_value(const ShellFields& words, ShellFields::const_iterator word) {
  if (word == words.begin()) return false;
  const ShellField& before = *(word - 1);
  return awaits_value(before) && shape_of_argument(run_argument_name(before.text)) != ArgumentShape::flag;
}

void require_separate_words(const LaunchCommand& launch, const ShellValues& values) {
  constexpr std::size_t kMostShown = 60;
  if (!starts_python(launch)) return;
  ShellFields found;
  for (auto word = launch.arguments.begin(); word != launch.arguments.end(); ++word) {
    if (is_flag(word->text) && has_blank(without_value(word->text)) && !may_be_value(launch.arguments, word))
      found.push_back(*word);
  }
  if (found.empty()) return;
  const std::string& first = found.front().text;
  const std::string shown = sim::printable_text(values.shown(first).substr(0, kMostShown));
  const auto others = static_cast<std::int64_t>(found.size()) - 1;
  const std::string more = others == 0 ? "" : fmt::format(", and {} like it", counted(others, "more word"));
  refuse_by("arguments_in_one_word", fmt::format("line {}", found.front().line), shown,
            first.size() > kMostShown ? " ..." : "", more);
}

/// Returns the name of an argument after signs that look like its dashes; "" where there is none.
std::string_view name_behind_other_dashes(std::string_view word) {
  constexpr std::array<std::string_view, 5> kDashes = {"-", "\u2013", "\u2014", "\u2212", "\u2010"};
  std::string_view name = word;
  bool has_other = false;
  const auto is_next = [&](std::string_view dash) { return name.starts_with(dash); };
  auto dash = std::ranges::find_if(kDashes, is_next);
  for (; dash != kDashes.end(); dash = std::ranges::find_if(kDashes, is_next)) {
    has_other = has_other || dash != kDashes.begin();
    name.remove_prefix(dash->size());
  }
  const bool has_one = word.starts_with('-') && name.size() + 1 == word.size();
  return (has_other || has_one) && is_known(without_value(name)) ? without_value(name) : "";
}

void require_dashes(const LaunchCommand& launch) {
  const auto refuse = [](const ShellField& word, const std::string& written, std::string_view name) {
    refuse_by("argument_without_dashes", fmt::format("line {}", word.line), sim::printable_text(written),
              name);
  };
  const ShellFields& words = launch.arguments;
  for (auto word = words.begin(); word != words.end(); ++word) {
    const std::string_view name = name_behind_other_dashes(word->text);
    if (!name.empty()) refuse(*word, word->text, name);
    const bool is_apart = word->text == "--" && word + 1 != words.end() && is_known((word + 1)->text);
    if (is_apart) refuse(*word, "-- " + (word + 1)->text, (word + 1)->text);
  }
  // Words before all arguments: the script may take some of its own, but none of this name.
  if (words.empty()) return;
  const std::string& first = words.front().text;
  const bool is_bare = first.find('-') != std::string::npos && first.front() != '-' && is_known(first);
  if (is_bare) refuse(words.front(), first, first);
}

void require_own_side(const LaunchCommand& launch) {
  const auto launcher = std::ranges::find_if(
      launch.before, [](const ShellField& word) { return launcher_of(word.text) == "torchrun"; });
  if (launcher == launch.before.end()) return;
  const std::string script = sim::printable_text(launch.script);
  for (auto word = launcher + 1; word != launch.before.end(); ++word) {
    const std::string written(without_value(word->text));
    if (!is_flag(written) || has_blank(written)) continue;
    if (is_used_argument(run_argument_name(written)))
      refuse_by("argument_before_script", fmt::format("line {}", word->line), sim::printable_text(written),
                script);
  }
  for (const ShellField& word : launch.arguments) {
    const std::string written(without_value(word.text));
    const std::string name = is_flag(written) ? run_argument_name(written) : "";
    const bool is_of_torchrun = name == "nnodes" || name == "nproc-per-node";
    if (is_of_torchrun && find_argument(name) == nullptr)
      refuse_by("launcher_behind_script", fmt::format("line {}", word.line), sim::printable_text(written),
                script);
  }
}

/// Refuses words that stop a launch.
void require_words_in_place(const LaunchCommand& launch, const ShellValues& values) {
  if (launch.script.empty()) return;
  require_separate_words(launch, values);
  require_dashes(launch);
  require_own_side(launch);
}

// ---- arguments

bool takes_many(std::string_view argument) {
  const ArgumentShape shape = shape_of_argument(argument);
  return shape == ArgumentShape::list || shape == ArgumentShape::maybes;
}

/// Whether a word has a '/' outside of what is not known: ${DATA}/a is a path, and no bundle of arguments.
bool names_a_file(std::string_view text) {
  bool is_known = true;
  return std::ranges::any_of(text, [&](char c) {
    if (c == kUnknownBegin || c == kUnknownEnd) is_known = c == kUnknownEnd;
    return is_known && c == '/';
  });
}

/// Takes the words of a launch: each flag with the words up to the next one.
class Words {
 public:
  Words(const ShellValues& values, RunArguments& run) : values_(values), run_(run) {}

  void take(const ShellField& word) {
    if (is_flag(word.text)) return take_flag(word);
    // A variable that stands alone after a complete argument may hold more of them, and so does one whose
    // text begins with a flag.
    const bool has_value = current_ != nullptr && !current_->values.empty();
    const bool is_complete =
        current_ == nullptr || has_value || shape_of_argument(current_->name) == ArgumentShape::flag;
    const bool is_another = has_value && takes_many(current_->name) && names_a_file(word.text);
    const bool holds_flags = values_.shown(word.text).find("=--") != std::string::npos;
    if (word.has_unknown() && !is_another && (is_complete || holds_flags)) current_ = nullptr;
    keep_unresolved(word);
    if (current_ != nullptr) current_->values.push_back(values_.shown(word.text));
  }

 private:
  void take_flag(const ShellField& word) {
    const std::size_t equals = word.text.find('=');
    run_.given.push_back({run_argument_name(values_.shown(word.text.substr(0, equals))), {}, word.line});
    current_ = &run_.given.back();
    const std::string written = word.text.substr(2, equals == std::string::npos ? equals : equals - 2);
    const bool is_of_deepspeed = written.starts_with("deepspeed");  // it writes its own names so
    if (written.find('_') != std::string::npos && !is_of_deepspeed && !is_known_with_underscores(written) &&
        find_argument(current_->name) != nullptr)
      run_.with_underscores.push_back({written, {}, word.line});
    if (equals != std::string::npos) current_->values.push_back(values_.shown(word.text.substr(equals + 1)));
    keep_unresolved(word);
  }

  void keep_unresolved(const ShellField& word) {
    for (Unresolved& unknown : values_.unresolved(word.text)) {
      if (current_ != nullptr) unknown.argument = current_->name;
      run_.unresolved.push_back(std::move(unknown));
    }
    if (run_.unresolved.size() <= kMostRunArguments) return;
    refuse_by("run_file_size/expansions", fmt::format("line {}", word.line), kMostRunArguments);
  }

  const ShellValues& values_;
  RunArguments& run_;
  RunArgument* current_ = nullptr;
};

/// ms-swift has the names of Megatron with "_", and "true" or "false" after what is a flag of Megatron. It
/// starts torchrun itself, with the processes that two variables of the environment say.
void take_words_of_swift(const LaunchCommand& launch, LaunchWorld& world, RunArguments& run) {
  ShellFields words = {{"torchrun", launch.line}};
  for (const auto& [option, name] :
       {std::pair("--nnodes", "NNODES"), {"--nproc_per_node", "NPROC_PER_NODE"}}) {
    const auto value = launch.variables->find(name);
    if (value != launch.variables->end() && value->second->fields.size() == 1)
      words.insert(words.end(), {{option, launch.line}, value->second->fields.front()});
  }
  if (words.size() > 1) world.read(words, "");
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
  run.given.push_back({kEtp, {"1"}, launch.line});
  run.notes.emplace_back(
      "--expert-tensor-parallel-size is 1 where a command of ms-swift does not give it, from version 3.9 on");
}

/// "+model.pp=2"; nothing for a word of another form. A key without "." or "_" may be anything.
std::optional<NamedValue> override_in(std::string_view word, int line) {
  const bool is_added = word.starts_with('+');
  word.remove_prefix(std::min(word.find_first_not_of('+'), word.size()));
  const std::size_t equals = word.find('=');
  if (equals == std::string_view::npos) return std::nullopt;
  const std::string_view path = word.substr(0, equals);
  const bool is_path = !path.empty() && std::ranges::all_of(path, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.';
  });
  if (!is_path || (!is_added && path.find_first_of("._") == std::string_view::npos)) return std::nullopt;
  return NamedValue{std::string(path), python_values(word.substr(equals + 1)), line};
}

std::vector<NamedValue> overrides_in(const ShellFields& words, const ShellValues& values) {
  std::vector<NamedValue> named;
  for (const ShellField& word : words)
    if (auto one = override_in(values.shown(word.text), word.line)) named.push_back(*std::move(one));
  return named;
}

/// Takes the arguments of the training script: each flag with the words up to the next one. ms-swift gives
/// the world in variables.
void take_arguments(const LaunchCommand& launch, const ShellValues& values, LaunchWorld& world,
                    RunArguments& run) {
  Words words(values, run);
  for (const ShellField& word : launch.arguments) words.take(word);
  if (is_of_swift(launch)) take_words_of_swift(launch, world, run);
}

/// Takes the arguments that the keys among the words give. They are translated (dialects.h).
void take_overrides(const ShellFields& words, const ShellValues& values, RunArguments& run) {
  Translation all = translated("nested", overrides_in(words, values));
  run.given = std::move(all.given);
  run.unresolved = std::move(all.unresolved);
  for (const ShellField& word : words) {
    const Translation one = translated("nested", overrides_in({word}, values));
    for (Unresolved& unknown : values.unresolved(word.text)) {
      if (!one.given.empty()) unknown.argument = one.given.front().name;
      if (!one.given.empty() || one.unused.empty()) run.unresolved.push_back(std::move(unknown));
    }
  }
  std::string note = "keys of a configuration are read by the names of arguments in them";
  if (!all.unused.empty()) note += "; not used: " + first_names(all.unused, 12);
  run.notes.push_back(std::move(note));
}

}  // namespace

// ---- the commands

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
  // Keys of a configuration in place of arguments: "+model.tensor_model_parallel_size=4".
  if (gives_used_argument(overrides_in(launch->arguments, values_))) overriding_ = launch;
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
  // Scripts that make programs known give a training no arguments.
  if (is_program(file.text, "set-up") || started_.size() == kMostStarted) return;
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
  refuse_by("arguments_apart", place_of_line(apart->line),
            sim::printable_text(values_.shown(apart->arguments.front().text)));
}

/// Refuses a text in which no launch is found. Where a word that is not known may be the command, that is
/// told.
void LaunchChoice::refuse_no_launch(int line_of_exit) const {
  if (!not_known_.empty()) {
    const Unresolved& last = not_known_.back();
    refuse_by("run_without_arguments/command", place_of_line(last.line),
              sim::printable_text(last.text.substr(0, 100)), last.reason,
              last.variable.empty() ? "only the command line, as a text file"
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
  world.read_arguments(launch.arguments);
  if (is_overriding) take_overrides(launch.arguments, values_, run);
  if (!is_overriding) take_arguments(launch, values_, world, run);
  world.take(values_, run);
  run.unresolved.insert(run.unresolved.end(), not_known_.begin(), not_known_.end());
  run.unresolved.insert(run.unresolved.end(), values_.needed().begin(), values_.needed().end());
  add_notes(launch, has_command, run);
  take_variables(launch, run);
  const auto visible = run.environment.find("CUDA_VISIBLE_DEVICES");
  run.contradictions = world.contradictions(visible == run.environment.end() ? "" : visible->second);
  return run;
}

std::optional<std::string> value_handed_on(std::string_view text, std::string_view name) {
  constexpr std::string_view kBefore = "\"\\', =";
  constexpr std::string_view kBetween = "\"\\':= ";
  for (std::size_t at = text.find(name); at != std::string_view::npos; at = text.find(name, at + 1)) {
    const std::string_view line = text.substr(text.rfind('\n', at) + 1, at - text.rfind('\n', at) - 1);
    const std::size_t begin = line.find_first_not_of(" \t");
    const bool is_comment = begin != std::string_view::npos && line[begin] == '#';
    const bool is_alone = begin == std::string_view::npos || line.ends_with("export ");
    if (is_comment || is_alone || kBefore.find(line.back()) == std::string_view::npos) continue;
    const std::size_t end = at + name.size();
    const std::size_t value = text.find_first_not_of(kBetween, end);
    std::size_t stop = value;
    while (stop < text.size() && std::isdigit(static_cast<unsigned char>(text[stop])) != 0) ++stop;
    if (value != std::string_view::npos && value > end && stop > value)
      return std::string(text.substr(value, stop - value));
  }
  return std::nullopt;
}

}  // namespace verify
