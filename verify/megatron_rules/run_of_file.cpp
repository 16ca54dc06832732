#include "verify/megatron_rules/run_of_file.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iterator>
#include <optional>
#include <utility>

#include "sim/base/check.h"
#include "sim/base/printable_text.h"
#include "verify/megatron_rules/expression.h"
#include "verify/megatron_rules/rule_facts.h"
#include "verify/output/refusal_table.h"
#include "verify/output/table_rows.h"
#include "verify/vocabulary/layer_pattern.h"
#include "verify/vocabulary/nearest_name.h"
#include "verify/vocabulary/option_vocabulary.h"

namespace verify {

// ---- what becomes of the arguments

namespace {

constexpr std::string_view kCases =
#include "argument_cases.tsv.inc"
    ;

Unproved unproved_of(const std::string& word) {
  static constexpr std::string_view kWords[] = {"nothing", "memory", "training", "layers", "groups"};
  const auto* found = std::ranges::find(kWords, word);
  SIM_CHECK(found != std::end(kWords));
  return static_cast<Unproved>(found - std::begin(kWords));
}

/// Whether weights are in as many shards as tensor parallelism has ranks anyway.
bool has_shards_of_ranks(const std::string& name, const RunValues& values) {
  const auto tp = values.number("tensor-model-parallel-size").value_or(1);
  if (name == "tensor-parallel-num-weight-shards") return values.number(name) == tp;
  return name == "expert-tensor-parallel-num-weight-shards" &&
         values.number(name) == values.number("expert-tensor-parallel-size").value_or(tp);
}

bool matters(const ArgumentRow& row, const RunValues& values) {
  const auto is_given = [&](const std::string& one) {
    const std::size_t at = one.find('=');
    return at == std::string::npos ? values.has(one) : values.text(one.substr(0, at)) == one.substr(at + 1);
  };
  return row.only_with.empty() || std::ranges::any_of(row.only_with, is_given);
}

/// Lists what becomes of each argument. Where a launcher gives the number of ranks, no argument does.
RunAccount account_of(const RunValues& values, bool launcher_gives_ranks) {
  RunAccount account;
  for (const auto& [name, value] : values.all()) {
    const ArgumentRow* row = find_argument(name);
    if (row == nullptr) {
      account.unknown.push_back({name, value.line, nearest_name(name, argument_names())});
      continue;
    }
    AccountedArgument argument{name, values.text(name), value.line, row->sentence, row->unproved};
    ArgumentUse use = row->use;
    if (const ArgumentCase* rule = find_argument_case(name, "model")) {
      const bool is_plain = rule->has_plain(argument.value);
      if (is_plain && use == ArgumentUse::not_modelled) {
        use = ArgumentUse::without_effect;
        argument.sentence = "with this value it changes nothing";
      } else if (!is_plain) {
        use = ArgumentUse::not_modelled;
        argument.sentence = rule->sentence;
        argument.unproved = rule->unproved;
      }
    } else if (has_shards_of_ranks(name, values)) {
      use = ArgumentUse::without_effect;
      argument.sentence = "weights have as many shards without it";
    } else if (name == "world-size" && launcher_gives_ranks) {
      use = ArgumentUse::without_effect;
      argument.sentence = "the launcher gives the number of ranks";
    } else if (use == ArgumentUse::not_modelled && !matters(*row, values)) {
      use = ArgumentUse::without_effect;
      argument.sentence = fmt::format("it matters only beside --{}", row->only_with.front());
    }
    if (use == ArgumentUse::without_effect && is_option_of_memory(name)) use = ArgumentUse::used;
    std::vector<AccountedArgument>* lists[] = {&account.used, &account.without_effect,
                                               &account.not_modelled};  // in the order of ArgumentUse
    lists[static_cast<std::size_t>(use)]->push_back(std::move(argument));
  }
  return account;
}

}  // namespace

bool ArgumentCase::has_plain(const std::string& value) const {
  return std::ranges::find(plain, value) != plain.end();
}

const ArgumentCase* find_argument_case(std::string_view argument, std::string_view about) {
  static const std::vector<ArgumentCase> cases = made_of_rows(kCases, [](const TextRow& row) {
    return ArgumentCase{row.at(0), row.at(1), words_of_cell(row.at(2)), unproved_of(row.at(3)), row.at(4)};
  });
  const auto found = std::ranges::find_if(
      cases, [&](const ArgumentCase& one) { return one.argument == argument && one.about == about; });
  return found == cases.end() ? nullptr : &*found;
}

std::string written(const AccountedArgument& argument) {
  return fmt::format("--{}{}{}", argument.name, argument.value.empty() ? "" : " ", argument.value);
}

const AccountedArgument* not_proved(const RunAccount& account, Unproved what) {
  const auto found = std::ranges::find_if(account.not_modelled, [&](const AccountedArgument& argument) {
    return argument.unproved >= what && argument.unproved != Unproved::nothing;
  });
  return found == account.not_modelled.end() ? nullptr : &*found;
}

bool is_option_of_memory(const std::string& name) {
  const OptionInfo* option = find_option(name);
  return option != nullptr && option->section == kMemorySection;
}

bool holds_less(const AccountedArgument& argument) {
  return find_argument_case(argument.name, "moved") != nullptr;
}

std::vector<AccountedArgument> uncounted_arguments(const RunValues& values, const RunAccount& account) {
  std::vector<AccountedArgument> uncounted;
  std::ranges::copy_if(
      account.not_modelled, std::back_inserter(uncounted), [](const AccountedArgument& argument) {
        return argument.unproved != Unproved::nothing && !is_option_of_memory(argument.name) &&
               find_argument_case(argument.name, "counted") == nullptr;
      });
  for (const auto& [name, value] : values.all()) {
    const ArgumentCase* found = find_argument_case(name, "memory");
    const std::string text = values.text(name);
    if (found == nullptr || found->has_plain(text) || text == "false" ||
        std::ranges::find(uncounted, name, &AccountedArgument::name) != uncounted.end())
      continue;
    uncounted.push_back({.name = name,
                         .value = text,
                         .line = value.line,
                         .sentence = found->sentence,
                         .unproved = found->unproved});
  }
  std::ranges::sort(uncounted, {}, &AccountedArgument::name);
  return uncounted;
}

// ---- the run

namespace {

/// Whether an option stands for an argument of its name that is judged. The ranks are those of the world.
bool stands_for_argument(const OptionInfo& option) {
  return option.name != "world-size" && find_argument(option.name) != nullptr &&
         (is_used_argument(option.name) || is_option_of_memory(option.name));
}

/// Gives the argument of an option's name the value that the option has; "false" stands for none.
void replace_argument(const OptionInfo& option, const Settings& settings, RunArguments& document) {
  const std::string name = option.name;
  std::erase_if(document.given, [&](const RunArgument& given) {
    const ArgumentCase* other = find_argument_case(given.name, "for");
    return (given.name == name && given.is_option) || (other != nullptr && other->has_plain(name));
  });
  std::erase_if(document.unresolved, [&](const Unresolved& unknown) { return unknown.argument == name; });
  document.given.push_back(
      {name, settings.has(name) ? settings.given(name) : std::vector<std::string>{"false"}, 0, true});
}

void replace_world(const Settings& settings, RunArguments& document) {
  if (const auto gpus = whole_number(settings.text("gpus-per-node", ""))) document.gpus_per_node = gpus;
  const auto world = settings.number("world-size");
  if (!world || world == document.world_size) return;
  if (document.world_size)
    document.notes.push_back(fmt::format("--world-size {} of the command line replaces {}: {}", *world,
                                         *document.world_size, document.world_size_source));
  document.world_size = world;
  document.world_size_source = "--world-size";
  std::erase_if(document.unresolved, [](const Unresolved& unknown) { return unknown.is_of_world; });
}

constexpr std::string_view kOptionsOfRun =
#include "options_of_run.tsv.inc"
    ;

/// Returns a word as this program's options spell it: a dtype, of which a log has the name of PyTorch, and a
/// choice, which it may spell as Python does, AttnBackend.flash.
std::string word_of_option(const std::string& word) {
  static constexpr std::pair<const char*, const char*> kDtypes[] = {{"torch.float32", "fp32"},
                                                                    {"torch.float16", "fp16"},
                                                                    {"torch.bfloat16", "bf16"},
                                                                    {"torch.uint8", "fp8"}};
  for (const auto& [name, argument] : kDtypes)
    if (word == name) return argument;
  constexpr std::string_view kPython = "Backend.";
  const std::size_t at = word.rfind(kPython);
  return at == std::string::npos ? word : word.substr(at + kPython.size());
}

/// Returns the values of an option that stands for the argument of its name.
std::vector<std::string> values_of(const OptionInfo& option, const RunValues& run) {
  std::vector<std::string> words = run.words(option.name);
  if (option.name == "cp-comm-type" && run.text("experimental-attention-variant") == "dsa")
    std::ranges::replace_if(words, gathers_tokens, std::string("all_gather"));  // which it spells otherwise
  switch (option.kind) {
    case OptionKind::flag:
      return {words.empty() ? "true" : words.front()};
    case OptionKind::numbers:
    case OptionKind::words:
      return words;
    case OptionKind::text:
      if (words.size() > 1) return {fmt::format("[{}]", fmt::join(words, ","))};  // a list of Python
      [[fallthrough]];
    default:
      return {word_of_option(run.text(option.name))};
  }
}

/// Copies the arguments that are used to the options of their names. What only the count of memory reads is
/// not judged elsewhere, and left out where it is not known.
void copy_arguments(RunOfFile& run) {
  for (const auto& [name, value] : run.values.all()) {
    const OptionInfo* option = find_option(name);
    const bool is_known = value.words.empty() || value.words.front().find('$') == std::string::npos;
    const bool is_used =
        std::ranges::find(run.account.used, name, &AccountedArgument::name) != run.account.used.end();
    if (option != nullptr && (is_option_of_memory(name) ? is_known : is_used))
      run.settings.append(name, values_of(*option, run.values));
  }
  if (run.document.gpus_per_node)
    run.settings.append("gpus-per-node", {std::to_string(*run.document.gpus_per_node)});
  if (!run.values.flag("moe-layer-recompute")) return;
  if (!run.settings.has("recompute-modules")) run.settings.append("recompute-modules", {"core_attn"});
  run.settings.append("recompute-modules", {"moe"});
}

struct OptionRow {
  std::string option;
  Expression when;
  std::optional<TextWithValues> becomes, note;
};
const std::vector<OptionRow>& option_rows() {
  static const std::vector<OptionRow> rows = made_of_rows(kOptionsOfRun, [](const TextRow& row) {
    const auto text = [](const std::string& cell) {
      return cell == "-" ? std::nullopt : std::optional<TextWithValues>(cell);
    };
    return OptionRow{row.at(0), Expression(row.at(1)), text(row.at(2)), text(row.at(3))};
  });
  return rows;
}

/// Adds the options that the used arguments of a run stand for, with what Megatron takes for arguments that
/// are not given (options_of_run.tsv), and notes about what was made of them.
void add_options(RunOfFile& run) {
  copy_arguments(run);
  const RuleFacts facts(run.values, {}, run.document.world_size);
  for (const OptionRow& row : option_rows()) {
    if (truth_of(row.when.value(facts)) != true) continue;
    if (row.note) run.notes.push_back(row.note->filled(facts));
    run.settings.remove(row.option);
    if (row.becomes) run.settings.append(row.option, {row.becomes->filled(facts)});
  }
}

}  // namespace

RunOfFile run_of(RunArguments document) {
  RunOfFile run{.document = std::move(document), .values = {}, .account = {}, .settings = {}, .notes = {}};
  if (!run.is_given()) return run;
  run.values = RunValues(run.document);
  run.account =
      account_of(run.values, run.document.kind != RunFileKind::log && run.document.world_size.has_value());
  run.notes = run.document.notes;
  add_options(run);
  return run;
}

RunOfFile with_options(const RunOfFile& run, const Settings& settings) {
  if (!run.is_given()) return run;
  RunArguments document = run.document;
  for (const OptionInfo& option : option_vocabulary()) {
    if (stands_for_argument(option) && settings.given(option.name) != run.settings.given(option.name))
      replace_argument(option, settings, document);
  }
  replace_world(settings, document);
  return run_of(std::move(document));
}

RunOfFile under_options(const RunOfFile& run, const Settings& given) {
  const RunOfFile changed = with_options(run, run.settings.overridden_by(given));
  // What follows from the layout may be given as well.
  return with_options(changed, changed.settings.overridden_by(given));
}

Settings with_decreased_batch(const RunOfFile& run, Settings options) {
  if (!run.values.flag("decrease-batch-size-if-needed") || !run.settings.has("global-batch-size"))
    return options;
  options.remove("global-batch-size");
  options.append("global-batch-size", run.settings.given("global-batch-size"));
  return options;
}

bool adds_nothing_that_counts(const Unresolved& unknown) {
  bool awaits_value = false;
  for (const std::string& word : unknown.appended) {
    if (word.starts_with("--")) {
      const std::string name = run_argument_name(word.substr(0, word.find('=')));
      const ArgumentRow* row = find_argument(name);
      if (row == nullptr || row->use != ArgumentUse::without_effect) return false;
      awaits_value = shape_of_argument(name) != ArgumentShape::flag && word.find('=') == std::string::npos;
    } else {
      // A word that is no value, or is not known, may be more than one.
      if (!awaits_value || word.find_first_of("$`;|&") != std::string::npos) return false;
      awaits_value = false;
    }
  }
  return !unknown.appended.empty();
}

void require_modelled(const RunOfFile& run, Unproved what) {
  const AccountedArgument* argument = not_proved(run.account, what);
  if (argument != nullptr)
    refuse_by("run_not_modelled", written(*argument), argument->sentence,
              what == Unproved::groups ? "groups of ranks" : "layers");
}

namespace {

/// What is not known of a run, as a refusal lists it, and what answers it.
struct NotKnown {
  std::vector<std::string> told, answers;

  void add(const Unresolved& unknown, const std::string& shown, const std::string& answer) {
    told.push_back(fmt::format("line {}: {}, {}", unknown.line, shown, unknown.reason));
    if (!answer.empty() && std::ranges::find(answers, answer) == answers.end()) answers.push_back(answer);
  }
};

std::string first_part(const std::string& text) { return sim::printable_text(text.substr(0, 80)); }

/// Returns the value of --set that answers; `other` if there is none.
std::string answer_of(const Unresolved& unknown, const std::string& other) {
  return unknown.variable.empty() ? other : fmt::format("--set {}=VALUE", unknown.variable);
}

/// Whether the value of an argument, or a number of processes, must be known.
bool counts(const RunOfFile& run, const Unresolved& unknown) {
  const bool is_used = std::ranges::find(run.account.used, unknown.argument, &AccountedArgument::name) !=
                       run.account.used.end();
  return unknown.is_of_world || is_used || is_hybrid_pattern(unknown.argument);
}

}  // namespace

void require_known_values(const RunOfFile& run, const std::string& option) {
  NotKnown values;
  for (const Unresolved& unknown : run.document.unresolved) {
    // A word that may hold further arguments is listed.
    if (unknown.argument.empty() || !counts(run, unknown)) continue;
    const std::string text = first_part(unknown.text);
    const std::string shown = text.starts_with("--") ? text : fmt::format("--{} {}", unknown.argument, text);
    values.add(unknown, shown,
               answer_of(unknown, unknown.is_of_world ? "--world-size N"
                                                      : fmt::format("--{} VALUE", unknown.argument)));
  }
  if (!values.told.empty())
    refuse_by("run_unresolved/value", option, fmt::join(values.told, "; "),
              run.document.kind == RunFileKind::command ? "command" : "file", fmt::join(values.answers, " "));
}

void require_known_words(const RunOfFile& run, const std::string& option) {
  constexpr std::size_t kMostTold = 3;
  NotKnown words;
  for (const Unresolved& unknown : run.document.unresolved) {
    if (unknown.argument.empty() && !unknown.is_of_world && !adds_nothing_that_counts(unknown))
      words.add(unknown, first_part(unknown.text), answer_of(unknown, ""));
  }
  if (words.told.empty()) return;
  const std::size_t more = words.told.size() - std::min(words.told.size(), kMostTold);
  words.told.resize(words.told.size() - more);
  refuse_by(
      "run_unresolved/word", option,
      fmt::format("{}{}", fmt::join(words.told, "; "), more == 0 ? "" : fmt::format("; and {} more", more)),
      words.answers.empty()
          ? "these arguments in the place of the word"
          : fmt::format("{}, and no VALUE where it is not set", fmt::join(words.answers, " ")));
}

}  // namespace verify
