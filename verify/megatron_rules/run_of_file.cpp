#include "verify/megatron_rules/run_of_file.h"

#include <algorithm>
#include <cctype>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sstream>
#include <utility>

#include "sim/base/error.h"
#include "sim/base/printable_text.h"
#include "sim/base/refusals.h"
#include "verify/megatron_rules/memory_arguments.h"
#include "verify/megatron_rules/options_of_run.h"
#include "verify/run_arguments/argument_shapes.h"
#include "verify/run_arguments/argument_table.h"
#include "verify/run_arguments/run_file.h"
#include "verify/run_arguments/shell_values.h"
#include "verify/vocabulary/hybrid_pattern.h"
#include "verify/vocabulary/nearest_name.h"
#include "verify/vocabulary/option_vocabulary.h"

namespace verify {

namespace {

bool is_used(const RunAccount& account, const std::string& name) {
  return std::any_of(account.used.begin(), account.used.end(),
                     [&](const AccountedArgument& argument) { return argument.name == name; });
}

/// The option that gave the run, as refusals name it.
std::string option_of(const RunOfFile& run) {
  return run.path.empty() ? "--command" : "--from " + sim::printable_text(run.path);
}

/// The sizes that the name of a file says: tp2 and pp4 in "gpt3_mcore_tp2_pp4.sh".
std::vector<std::string> contradictions_of_name(const std::string& path, const RunValues& values) {
  const std::string name = path.substr(path.rfind('/') + 1);
  static constexpr std::pair<const char*, const char*> kSizesOfNames[] = {
      {"tp", "tensor-model-parallel-size"},
      {"pp", "pipeline-model-parallel-size"},
      {"cp", "context-parallel-size"},
      {"ep", "expert-model-parallel-size"}};
  std::vector<std::string> notes;
  for (const auto& [prefix, option] : kSizesOfNames) {
    for (std::size_t at = name.find(prefix); at != std::string::npos; at = name.find(prefix, at + 1)) {
      const bool begins = at == 0 || std::isalpha(static_cast<unsigned char>(name[at - 1])) == 0;
      std::size_t end = at + 2;
      while (end < name.size() && std::isdigit(static_cast<unsigned char>(name[end])) != 0) ++end;
      const auto said = whole_number(std::string_view(name).substr(at + 2, end - at - 2));
      if (!begins || !said) continue;
      const std::int64_t given = values.number(option).value_or(1);
      if (given == *said) break;
      notes.push_back(fmt::format("the name of the file says {}{}, and its arguments say --{} {}", prefix,
                                  *said, option, given));
      break;
    }
  }
  return notes;
}

/// Returns why a value is not known, of a file or of the text of a command, and which variable of a similar
/// name has a value.
std::string reason_of(const RunOfFile& run, const Unresolved& unknown) {
  if (unknown.reason != kNotAssigned) return unknown.reason;
  constexpr std::size_t kShortest = 4;  // TP and PP are no misspelling of each other
  const bool is_long = unknown.variable.size() >= kShortest;
  const std::string similar = is_long ? nearest_name(unknown.variable, run.run.variables) : "";
  const std::string reason = run.path.empty() ? "it is not assigned in the command" : unknown.reason;
  return similar.empty() ? reason : fmt::format("{}, but {} is", reason, sim::printable_text(similar));
}

void keep_unresolved(const RunOfFile& run, const Settings& command_line, sim::Refusals& refusals) {
  std::string what;
  std::vector<std::string> answers;
  for (const Unresolved& unknown : run.run.unresolved) {
    if (unknown.argument.empty()) continue;  // it may hold further arguments, which are listed
    const bool counts =
        unknown.is_of_world || is_used(run.account, unknown.argument) || is_hybrid_pattern(unknown.argument);
    if (!counts || command_line.has(unknown.is_of_world ? "world-size" : unknown.argument)) continue;
    const std::string text = sim::printable_text(unknown.text.substr(0, 80));
    const std::string option = text.starts_with("--") ? text : fmt::format("--{} {}", unknown.argument, text);
    what += fmt::format("{}line {}: {}, {}", what.empty() ? "" : "; ", unknown.line, option,
                        reason_of(run, unknown));
    const std::string answer = !unknown.variable.empty() ? fmt::format("--set {}=VALUE", unknown.variable)
                               : unknown.is_of_world     ? "--world-size N"
                                                         : fmt::format("--{} VALUE", unknown.argument);
    if (std::ranges::find(answers, answer) == answers.end()) answers.push_back(answer);
  }
  if (what.empty()) return;
  refusals.keep([&] {
    sim::refuse(
        {.code = "run_unresolved",
         .option = option_of(run),
         .numbers = what,
         .rule = fmt::format("nothing is executed: the value of an argument that is used must be in the {}",
                             run.path.empty() ? "command" : "file"),
         .hint = fmt::format("{}", fmt::join(answers, " "))});
  });
}

RunVariables requested_variables(const Settings& line) {
  RunVariables variables;
  for (const std::string& given : line.given("set")) {
    const std::size_t equals = given.find('=');
    if (equals == std::string::npos || equals == 0) {
      sim::refuse({.code = "bad_set",
                   .option = "--set",
                   .numbers = fmt::format("'{}'", given),
                   .rule = "--set gives a variable of the script or command that is read its value",
                   .hint = "--set NNODES=16"});
    }
    variables[given.substr(0, equals)] = given.substr(equals + 1);
  }
  return variables;
}

/// Refuses an option that is about a run, where none is given.
[[noreturn]] void refuse_without_run(const std::string& option) {
  sim::refuse({.code = "option_without_effect",
               .option = "--" + option,
               .numbers = "neither --from nor a command behind '--' is given",
               .rule = "an option that a command would not read is refused",
               .hint = "--from FILE, or the command of the run behind '--'"});
}

/// Reads the text of --command. Its readers refuse texts of --from, and so name that option.
RunArguments read_command(const std::string& text, const RunVariables& variables) {
  sim::Refusals refusals;
  const auto keep_named = [&](sim::Refusal refusal) {
    if (refusal.option == "--from") refusal.option = "--command";
    refusals.keep([&] { sim::refuse(std::move(refusal)); });
  };
  try {
    return read_run_text(text, variables);
  } catch (const sim::Error& error) {
    keep_named(error.refusal());
    for (sim::Refusal& further : sim::further_refusals(error)) keep_named(std::move(further));
  }
  refusals.throw_if_any();
  return {};
}

/// Lists an argument with the number of ranks as one without effect where a launcher gives the number.
RunAccount account_under_launcher(const RunValues& values, const RunArguments& run) {
  RunAccount account = account_of(values);
  const auto found = std::ranges::find(account.used, "world-size", &AccountedArgument::name);
  if (run.kind == RunFileKind::log || !run.world_size || found == account.used.end()) return account;
  AccountedArgument argument = std::move(*found);
  argument.sentence = "the launcher gives the number of ranks";
  account.used.erase(found);
  const auto place =
      std::ranges::lower_bound(account.without_effect, argument.name, {}, &AccountedArgument::name);
  account.without_effect.insert(place, std::move(argument));
  return account;
}

/// Makes of the arguments that are judged all that follows from them.
void derive(RunOfFile& run, std::optional<std::int64_t> world_size) {
  const std::optional<std::int64_t>& of_file = run.run.world_size;
  run.judged_account = account_under_launcher(run.judged, run.run);
  OptionsOfRun options = options_of_run(run.judged, run.judged_account, world_size ? world_size : of_file,
                                        run.run.gpus_per_node);
  run.settings = std::move(options.settings);
  run.notes = run.run.notes;
  for (const std::vector<std::string>& more : {options.notes, contradictions_of_name(run.path, run.values)})
    run.notes.insert(run.notes.end(), more.begin(), more.end());
  if (world_size && of_file && *world_size != *of_file)
    run.notes.push_back(fmt::format("--world-size {} of the command line replaces {}: {}", *world_size,
                                    *of_file, run.run.world_size_source));
}

/// Arguments of another name that say what an option says.
constexpr std::pair<const char*, const char*> kOtherNames[] = {
    {"num-layers", "encoder-num-layers"},
    {"seq-length", "encoder-seq-length"},
    {"vocab-size", "padded-vocab-size"},
    {"recompute-granularity", "recompute-activations"},
    {"recompute-granularity", "checkpoint-activations"},
    {"micro-batch-size", "batch-size"},
    {"tensor-model-parallel-size", "model-parallel-size"},
    {"position-embedding-type", "use-rotary-position-embeddings"}};

/// Whether an option stands for an argument of its name that is judged.
bool stands_for_argument(const OptionInfo& option) {
  const ArgumentRow* row = find_argument(option.name);
  return row != nullptr && (row->use == ArgumentUse::used || is_option_of_memory(option.name));
}

/// Gives the argument of an option's name the value that the option has.
void replace_argument(const OptionInfo& option, const Settings& settings, RunValues& values) {
  for (const auto& [name, other] : kOtherNames)
    if (option.name == std::string_view(name)) values.remove(other);
  const bool is_flag = option.kind == OptionKind::flag;
  if (!settings.has(option.name) || (is_flag && settings.text(option.name, "") == "false")) {
    values.remove(option.name);
  } else {
    values.replace(option.name, is_flag ? std::vector<std::string>() : settings.given(option.name));
  }
}

}  // namespace

RunOfFile run_of(const std::string& path, RunArguments run, std::optional<std::int64_t> world_size) {
  RunValues values(run);
  RunAccount account = account_under_launcher(values, run);
  RunOfFile made{.path = path,
                 .run = std::move(run),
                 .values = values,
                 .account = std::move(account),
                 .judged = std::move(values),
                 .judged_account = {},
                 .settings = {},
                 .notes = {}};
  derive(made, world_size);
  return made;
}

RunOfFile with_options(const RunOfFile& run, const Settings& settings) {
  RunOfFile changed = run;
  for (const OptionInfo& option : option_vocabulary()) {
    if (stands_for_argument(option) && settings.given(option.name) != run.settings.given(option.name))
      replace_argument(option, settings, changed.judged);
  }
  derive(changed, settings.number("world-size"));
  return changed;
}

Settings with_decreased_batch(const RunOfFile& run, Settings options) {
  if (!run.judged.flag("decrease-batch-size-if-needed") || !run.settings.has("global-batch-size"))
    return options;
  options.remove("global-batch-size");
  options.append("global-batch-size", run.settings.given("global-batch-size"));
  return options;
}

bool adds_nothing_that_counts(const Unresolved& unknown) {
  const std::size_t sign = unknown.text.find("+=");
  const bool is_cut = unknown.text.ends_with(" ...");
  const bool is_appended = unknown.reason.starts_with("it is appended in a branch");
  if (sign == std::string::npos || is_cut || !is_appended) return false;
  std::istringstream text(unknown.text.substr(sign + 2));
  bool awaits_value = false, has_flag = false;
  for (std::string word; text >> word;) {
    if (word.starts_with("--")) {
      const std::string name = run_argument_name(word.substr(0, word.find('=')));
      const ArgumentRow* row = find_argument(name);
      if (row == nullptr || row->use != ArgumentUse::without_effect) return false;
      awaits_value = shape_of_argument(name) != ArgumentShape::flag && word.find('=') == std::string::npos;
      has_flag = true;
      continue;
    }
    // A word that is no value, or is not known, may be more than one.
    if (!awaits_value || word.find_first_of("$`;|&") != std::string::npos) return false;
    awaits_value = false;
  }
  return has_flag;
}

void require_known_words(const RunOfFile& run) {
  constexpr std::size_t kMostTold = 3;
  std::vector<std::string> words;
  std::vector<std::string> variables;
  for (const Unresolved& unknown : run.run.unresolved) {
    if (!unknown.argument.empty() || unknown.is_of_world || adds_nothing_that_counts(unknown)) continue;
    words.push_back(fmt::format("line {}: {}, {}", unknown.line,
                                sim::printable_text(unknown.text.substr(0, 80)), reason_of(run, unknown)));
    const bool is_new = std::ranges::find(variables, unknown.variable) == variables.end();
    if (!unknown.variable.empty() && is_new) variables.push_back(unknown.variable);
  }
  if (words.empty()) return;
  const std::size_t told = std::min(words.size(), kMostTold);
  const std::string more = words.size() == told ? "" : fmt::format("; and {} more", words.size() - told);
  words.resize(told);
  sim::refuse({.code = "run_unresolved",
               .option = option_of(run),
               .numbers = fmt::format("{}{}", fmt::join(words, "; "), more),
               .rule =
                   "the word may hold further arguments, and nothing is executed: what else is refused may "
                   "follow from that",
               .hint = variables.empty() ? "these arguments in the place of the word"
                                         : fmt::format("--set {}=VALUE, and no VALUE where it is not set",
                                                       fmt::join(variables, "=VALUE --set "))});
}

void require_judgeable(const RunOfFile& run, const Settings& command_line) {
  sim::Refusals refusals;
  keep_unresolved(run, command_line, refusals);
  refusals.throw_if_any();
}

void require_modelled(const RunOfFile& run, Unproved what) {
  const std::string reason = not_proved(run.judged_account, what);
  if (reason.empty()) return;
  sim::refuse({.code = "run_not_modelled",
               .option = reason.substr(0, reason.find(':')),
               .numbers = reason.substr(reason.find(':') + 2),
               .rule = fmt::format("{} are judged where they are as Megatron makes them",
                                   what == Unproved::groups ? "groups of ranks" : "layers"),
               .hint = "the run without this argument"});
}

std::string source_name(const RunOfFile& run) {
  if (run.path.empty()) return "the command";
  return run.path == kStandardInput ? "standard input" : sim::printable_text(run.path);
}

std::shared_ptr<const RunOfFile> requested_run(const Settings& line) {
  const bool is_command = line.has("command");
  if (!line.has("from") && !is_command) {
    for (const char* option : {"set", "from-as"})
      if (line.has(option)) refuse_without_run(option);
    return nullptr;
  }
  if (line.has("from") && is_command) {
    sim::refuse({.code = "two_runs",
                 .option = "--from, --command",
                 .numbers = "both are given",
                 .rule = "the options of one run are read, from a file or from a command line",
                 .hint = "one of them, and options of this program for what differs"});
  }
  const std::string path = line.text("from", "");
  const auto world = line.number("world-size");
  const RunVariables variables = requested_variables(line);
  RunArguments arguments =
      is_command ? read_command(line.text("command", ""), variables) : read_run_file(path, variables);
  if (arguments.kind == RunFileKind::log && !variables.empty()) {
    sim::refuse({.code = "bad_set",
                 .option = fmt::format("--set {}", variables.begin()->first),
                 .numbers = "the file is a log",
                 .rule = "a log has the values of all arguments, and no variables",
                 .hint = "the argument on the command line"});
  }
  const RunOfFile run = run_of(path, std::move(arguments), world);
  return std::make_shared<const RunOfFile>(with_options(run, run.settings.overridden_by(line)));
}

}  // namespace verify
