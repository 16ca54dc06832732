#include "verify/megatron_rules/megatron_validation.h"

#include <algorithm>
#include <boost/algorithm/string.hpp>
#include <cctype>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iterator>
#include <set>

#include "sim/base/error.h"
#include "sim/base/printable_text.h"
#include "verify/megatron_rules/rule_facts.h"
#include "verify/megatron_rules/rule_table.h"
#include "verify/output/refusal_table.h"
#include "verify/output/table_rows.h"
#include "verify/run_arguments/argument_table.h"
#include "verify/run_arguments/dialects.h"
#include "verify/vocabulary/layer_pattern.h"
#include "verify/vocabulary/spelled_values.h"

namespace verify {

namespace {

// ---- rules of options

/// Whether only a step would break a rule, of a run whose arguments Megatron takes.
bool is_of_a_step(const MegatronRule& rule, const RunOfFile& run) {
  const bool says_length = run.values.has("train-iters") || run.values.has("train-samples");
  return run.is_given() &&
         (rule.is("step") || (rule.is("training") && !says_length && !run.values.has("deepspeed")));
}

/// Whether the options of a run are not held to a rule.
bool is_left_out(const MegatronRule& rule, const RunOfFile& run) {
  const bool is_of_others = rule.is("megatron-experts") && run.values.has("deepspeed");
  return run.is_given() && (rule.is("bare") || is_of_others || is_of_a_step(rule, run));
}

/// Returns the refusals of the rules of a step that are broken.
std::vector<sim::Refusal> refusals_of_a_step(const Settings& settings, const RunOfFile& run) {
  std::vector<sim::Refusal> broken;
  if (!run.is_given()) return broken;
  const RuleFacts facts(settings);
  for (const MegatronRule& rule : megatron_rules())
    if (is_of_a_step(rule, run) && rule.is_broken(facts)) broken.push_back(rule.refusal(facts));
  return broken;
}

}  // namespace

std::vector<sim::Warning> megatron_warnings(const Settings& settings, const RunOfFile& run) {
  std::vector<sim::Warning> warnings;
  for (const sim::Refusal& broken : refusals_of_a_step(settings, run))
    warnings.push_back({broken.code, fmt::format("{}: {}", broken.numbers, broken.rule)});
  return warnings;
}

std::vector<sim::Warning> context_warnings(const Settings& settings) {
  std::vector<sim::Warning> warnings;
  const RuleFacts facts(settings);
  for (const MegatronRule& rule : megatron_rules()) {
    if (!rule.is("layer") || !rule.is_broken(facts)) continue;
    warnings.push_back({rule.code, fmt::format("{}, but {}; TransformerEngine stops at the first layer",
                                               rule.numbers.filled(facts), rule.rule)});
  }
  return warnings;
}

std::vector<sim::Warning> option_warnings(const Settings& settings, std::string_view command) {
  return table_warnings(command, RuleFacts(settings));
}

std::string megatron_hint(const Settings& settings, const RunOfFile& run) {
  const std::vector<sim::Refusal> broken = refusals_of_a_step(settings, run);
  return broken.empty() ? "" : broken.front().hint;
}

void keep_megatron_refusals(const Settings& settings, Reader reader, sim::Refusals& refusals,
                            const RunOfFile& run) {
  const bool is_legacy = settings.choice("rules") == "legacy";
  const RuleFacts facts(settings);
  for (const MegatronRule& rule : megatron_rules()) {
    const bool is_held = rule.is_of_options && overlap(rule.readers, reader) &&
                         (rule.is("sizes") || rule.is("bare") || !is_legacy) && !is_left_out(rule, run);
    refusals.keep([&] {
      if (is_held && rule.is_broken(facts)) sim::refuse(rule.refusal(facts));
    });
  }
}

namespace {

// ---- values

constexpr std::string_view kChoices =
#include "argument_choices.tsv.inc"
    ;

struct Choices {
  std::string argument;
  bool is_open;  // forks and older versions add words of their own
  std::vector<std::string> words;
};

const std::vector<Choices>& all_choices() {
  static const std::vector<Choices> choices = made_of_rows(kChoices, [](const TextRow& row) {
    return Choices{row.at(0), row.at(1) == "warned-of", words_of_cell(row.at(2))};
  });
  return choices;
}

/// Refuses a word that is no number where one is read, as Python reads it after blanks and a sign, and
/// "--num-layers= 24". No word and several are refused otherwise.
void require_number(const std::string& argument, const std::vector<std::string>& words) {
  const NumberKind kind = number_kind_of_argument(argument);
  if (kind == NumberKind::none || words.empty()) return;
  if (words.size() > 1 && words[0].empty())
    refuse_by("not_a_number/blank", fmt::format("--{}", argument),
              sim::printable_text(words[1]).substr(0, 100));
  if (words.size() > 1) return;
  std::string number = boost::trim_copy_if(words[0], boost::is_any_of(" \t\n"));
  if (number.starts_with('+') || number.starts_with('-')) number.erase(0, 1);
  const bool are_digits = !number.empty() && number.find_first_not_of("0123456789") == std::string::npos;
  if (are_digits) return;
  if (kind == NumberKind::whole) refuse_number(argument, words[0], "the value is a whole number");
  if (!decimal_number(number)) refuse_number(argument, words[0], "the value is a decimal number");
}

/// Whether the value of an argument is one of a few words.
bool is_choice_argument(std::string_view name) {
  return std::ranges::any_of(all_choices(),
                             [&](const Choices& one) { return !one.is_open && one.argument == name; });
}

/// Keeps a refusal for every argument whose value the parser does not take. Returns whether there is one.
bool keep_unreadable_values(const RunValues& values, sim::Refusals& refusals) {
  bool are_readable = true;
  for (const Choices& choices : all_choices())
    are_readable &= choices.is_open || refusals.keep([&] {
      for (const std::string& word : values.words(choices.argument))
        require_choice(choices.argument, word, choices.words);
    });
  for (const auto& [name, value] : values.all())
    are_readable &=
        refusals.keep([&, &argument = name, &words = value.words] { require_number(argument, words); });
  return !are_readable;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> words_of_forks(const RunValues& values) {
  std::vector<std::pair<std::string, std::string>> words;
  for (const Choices& choices : all_choices()) {
    for (const std::string& word : values.words(choices.argument))
      if (choices.is_open && std::ranges::find(choices.words, word) == choices.words.end() &&
          word.find('$') == std::string::npos)
        words.emplace_back(choices.argument, word);
  }
  return words;
}

namespace {

// ---- words

/// Whether rules ask what the value of an argument is. Of others they mostly ask whether they are given.
bool has_judged_value(const std::string& argument) {
  return is_hybrid_pattern(argument) || number_kind_of_argument(argument) != NumberKind::none ||
         is_choice_argument(argument) || shape_of_argument(argument) == ArgumentShape::list;
}

/// Returns the arguments whose values only a shell could tell, and which rules judge.
std::set<std::string> values_not_known(const RunOfFile& run) {
  std::set<std::string> names;
  for (const Unresolved& unknown : run.document.unresolved)
    if (has_judged_value(unknown.argument)) names.insert(unknown.argument);
  return names;
}

/// Whether the arguments are those of another program around Megatron Core, which gives defaults of its own.
bool has_rules_of_its_own(const RunOfFile& run) {
  return run.values.has("deepspeed") || run.values.has("actor-num-nodes") ||
         run.document.script.starts_with("megatron ");  // of ms-swift
}

/// Whether a word holds what a shell would replace: by nothing, by one word or by several.
bool is_expanded(const std::string& word) { return word.find_first_of("$`") != std::string::npos; }

std::string quoted(const std::string& text) {
  return fmt::format("'{}'", sim::printable_text(text).substr(0, 100));
}

/// Refuses several words after an argument that takes one.
void refuse_further_values(const std::string& option, const RunArgument& argument) {
  if (argument.values.size() < 2 || std::ranges::any_of(argument.values, is_expanded)) return;
  const std::string first = sim::printable_text(argument.values.front()).substr(0, 100);
  refuse_by("values_too_many", option, quoted(fmt::format("{}", fmt::join(argument.values, " "))),
            argument.line,
            first.ends_with(',') ? "with quotes around all of its value"
                                 : fmt::format("{}, or quotes around all of it", first));
}

/// Refuses "a,b", which Megatron's parser takes for one word.
void refuse_commas(const std::string& option, const RunArgument& argument) {
  const auto is_joined = [](const std::string& word) {
    return word.find(',') != std::string::npos && !word.starts_with("[") && !is_expanded(word);
  };
  const auto found = std::ranges::find_if(argument.values, is_joined);
  if (found == argument.values.end() || !has_plain_words(argument.name)) return;
  std::string apart = *found;
  std::ranges::replace(apart, ',', ' ');
  refuse_by("list_with_commas", option, quoted(*found), argument.line,
            sim::printable_text(apart).substr(0, 100));
}

/// Refuses what Megatron's parser does not take after an argument of a script. A word after a flag, such as
/// "False", would not turn it off.
void refuse_words_of(const RunArgument& argument) {
  const ArgumentShape shape = shape_of_argument(argument.name);
  const bool takes_words = shape == ArgumentShape::value || shape == ArgumentShape::list;
  const std::string option = fmt::format("--{}", argument.name);
  if (shape == ArgumentShape::flag && !argument.values.empty())
    refuse_by("flag_with_value", option, fmt::format("'{}'", sim::printable_text(argument.values.front())),
              argument.line);
  if (takes_words && argument.values.empty())
    refuse_by("value_missing", option, "no word after it", argument.line);
  if (shape == ArgumentShape::value) refuse_further_values(option, argument);
  if (shape == ArgumentShape::list) refuse_commas(option, argument);
}

/// Whether the value of an argument changes no size.
bool has_no_size(const std::string& argument) {
  const ArgumentRow* row = find_argument(argument);
  return row == nullptr || (row->use == ArgumentUse::without_effect && !is_option_of_memory(argument));
}

/// Whether the value of an argument is a text that changes nothing, such as a path that a template leaves to
/// be filled in: "--save <path to checkpoints>".
bool is_free_text(const std::string& argument) {
  return has_no_size(argument) && shape_of_argument(argument) == ArgumentShape::value &&
         number_kind_of_argument(argument) == NumberKind::none && !is_choice_argument(argument);
}

bool is_asked(Asked asked, const std::string& argument) {
  return asked == Asked::sizes ? !has_no_size(argument) : !is_free_text(argument);
}

/// Keeps a refusal for every argument of a script that its parser does not take so, if `is_judged` holds of
/// it. Returns whether there is one.
template <typename IsJudged>
bool keep_unparsed_words(const RunOfFile& run, const IsJudged& is_judged, sim::Refusals& refusals) {
  bool is_refused = false;
  if (!run.document.has_words()) return is_refused;
  for (const RunArgument& argument : run.document.given) {
    if (!argument.is_option && is_judged(argument.name))
      is_refused |= !refusals.keep([&] { refuse_words_of(argument); });
  }
  return is_refused;
}

}  // namespace

void require_parsed_words(const RunOfFile& run) {
  if (has_rules_of_its_own(run)) return;
  sim::Refusals refusals;
  const auto is_judged = [](const std::string& argument) { return is_asked(Asked::sizes, argument); };
  keep_unparsed_words(run, is_judged, refusals);
  refusals.throw_if_any();
}

bool keep_run_refusals(const RunOfFile& run, std::optional<std::int64_t> world_size, Asked asked,
                       sim::Refusals& refusals) {
  if (!run.is_given() || run.document.kind == RunFileKind::log || has_rules_of_its_own(run)) return false;
  const std::set<std::string> unknown = values_not_known(run);
  const auto is_judged = [&](const std::string& argument) { return is_asked(asked, argument); };
  RunValues readable = run.values;
  for (const auto& [name, value] : run.values.all())
    if (!is_judged(name) || unknown.contains(name)) readable.remove(name);
  bool is_refused = keep_unreadable_values(readable, refusals);
  is_refused |= keep_unparsed_words(run, is_judged, refusals);
  const RuleFacts facts(run.values, run.document.environment, world_size);
  const auto is_unknown = [&](const std::string& name) { return unknown.contains(name); };
  for (const MegatronRule& rule : megatron_rules()) {
    const bool is_left_out = asked == Asked::sizes && std::ranges::all_of(rule.arguments, has_no_size);
    const bool is_held = rule.is_of_runs && !is_left_out && std::ranges::none_of(rule.arguments, is_unknown);
    if (is_held && rule.is_broken(facts))
      is_refused |= !refusals.keep([&] { sim::refuse(rule.refusal(facts)); });
  }
  return is_refused;
}

namespace {

constexpr std::size_t kMostTold = 6;  // of a kind

/// Arguments that are none of Megatron's: a name that is misspelled changes what is computed.
std::vector<std::string> unknown_arguments(const RunOfFile& run) {
  std::vector<std::string> told;
  for (const UnknownArgument& argument : run.account.unknown) {
    const std::string nearest =
        argument.nearest.empty() ? "" : fmt::format(" (the nearest name is --{})", argument.nearest);
    told.push_back(fmt::format("--{}{}", sim::printable_text(argument.name), nearest));
  }
  return told;
}

/// Words that Megatron's parser does not take and that change nothing, or are those of a fork.
std::vector<std::string> other_words(const RunOfFile& run) {
  std::vector<std::string> told;
  if (run.document.kind == RunFileKind::log || has_rules_of_its_own(run)) return told;
  for (const auto& [argument, word] : words_of_forks(run.values))
    told.push_back(fmt::format("--{} {}", argument, quoted(word)));
  sim::Refusals refusals;
  keep_unparsed_words(run, is_free_text, refusals);
  for (const sim::Refusal& one : refusals.all())
    told.push_back(fmt::format("{}: {}", one.option, one.numbers));
  return told;
}

/// Those of these arguments that `is_told` holds of, with their lines.
template <typename IsTold>
std::vector<std::string> in_lines(const std::vector<RunArgument>& arguments, const IsTold& is_told) {
  std::vector<std::string> told;
  for (const RunArgument& argument : arguments)
    if (is_told(argument))
      told.push_back(fmt::format("--{} in line {}", sim::printable_text(argument.name), argument.line));
  return told;
}

/// Arguments that are used and stand in the file with different values.
std::vector<std::string> repeated_arguments(const RunOfFile& run) {
  std::vector<std::string> told;
  for (const RunValues::Repeated& repeated : run.values.repeated()) {
    if (!is_used_argument(repeated.name)) continue;
    told.push_back(sim::printable_text(fmt::format(
        "--{} is '{}' in line {} and '{}' in line {}", repeated.name, fmt::join(repeated.first.words, " "),
        repeated.first.line, fmt::join(repeated.last.words, " "), repeated.last.line)));
  }
  return told;
}

/// Words that may hold further arguments, which nobody can read.
std::vector<std::string> unknown_words(const RunOfFile& run) {
  std::vector<std::string> words;
  for (const Unresolved& unknown : run.document.unresolved) {
    if (!unknown.argument.empty() || unknown.is_of_world || adds_nothing_that_counts(unknown)) continue;
    std::string word =
        fmt::format("{} in line {}", sim::printable_text(unknown.text.substr(0, 80)), unknown.line);
    if (!unknown.variable.empty()) word += fmt::format(" (--set {}=VALUE)", unknown.variable);
    if (std::ranges::find(words, word) == words.end()) words.push_back(std::move(word));
  }
  return words;
}

/// The words of the name of a script: letters and digits between other characters.
std::vector<std::string> words_of_name(const std::string& script) {
  std::vector<std::string> words;
  return boost::split(words, script, [](unsigned char c) { return std::isalnum(c) == 0; });
}

/// What warnings.tsv sees of a run.
RuleFacts facts_of(const RunOfFile& run) {
  const bool is_command = run.document.kind == RunFileKind::command;
  const auto is_of_inference = [](const auto& argument) {
    return argument.first.starts_with("inference-dynamic-batching");
  };
  RuleFacts facts(run.values, run.document.environment, run.document.world_size);
  facts.add("source", std::string(is_command ? "the command" : "the file"));
  facts.add("has_words", run.document.has_words());
  facts.add("script", run.document.script);
  facts.add("script_words", words_of_name(run.document.script));
  facts.add("batches_inference", std::ranges::any_of(run.values.all(), is_of_inference));
  return facts;
}

/// Whether a refusal says that something is not given, which a checkpoint or a defaults file may hold.
bool is_about_absence(const sim::Refusal& refusal) {
  return std::ranges::any_of(megatron_rules(), [&](const MegatronRule& rule) {
    return rule.code == refusal.code && rule.is("absence");
  });
}

}  // namespace

std::vector<sim::Warning> warnings_of_file(const RunOfFile& run) {
  const RunArguments& document = run.document;
  const auto has_underscore = [](const RunArgument&) { return true; };
  const auto is_derived = [&](const RunArgument& argument) {
    return document.has_words() && !argument.is_option &&
           find_argument_case(argument.name, "derived") != nullptr;
  };
  const std::string stops = document.kind == RunFileKind::log
                                ? ""
                                : ", and Megatron stops at an argument that its training script does not add";
  std::vector<sim::Warning> warnings;
  const auto warn = [&](const char* name, const std::vector<std::string>& told, const std::string& before,
                        const std::string& after) {
    if (!told.empty()) warnings.push_back({name, before + first_names(told, kMostTold) + after});
  };
  warn("unknown_arguments", unknown_arguments(run), "what ",
       " would change is neither proved nor counted" + stops);
  warn("other_words", other_words(run), "",
       ": Megatron-LM takes other words there; forks may take these, and no size depends on them");
  warn("underscores_in_names", in_lines(document.with_underscores, has_underscore), "",
       ": Megatron's parser knows these names with '-' in the place of '_', and stops at others; they are "
       "taken for the names with '-'");
  warn(
      "derived_names", in_lines(document.given, is_derived), "",
      ": these are names of Megatron's variables and of none of its arguments, and its parser stops at them");
  warn("repeated_arguments", repeated_arguments(run), "",
       ": Megatron's parser takes the last value without a word");
  warn("unresolved_words", unknown_words(run), "",
       " may hold more arguments, or another command: what they would change is neither proved nor counted");
  if (!document.contradictions.empty())
    warnings.push_back({"launch_contradicts", fmt::format("{}", fmt::join(document.contradictions, "; "))});
  std::ranges::move(table_warnings("program", facts_of(run)), std::back_inserter(warnings));
  return warnings;
}

std::vector<sim::Warning> run_warnings(const RunOfFile& run) {
  std::vector<sim::Warning> warnings = table_warnings("run", facts_of(run));
  std::ranges::move(warnings_of_file(run), std::back_inserter(warnings));
  return warnings;
}

std::vector<sim::Warning> warnings_of_refusals(const RunOfFile& run, std::optional<std::int64_t> world_size) {
  sim::Refusals refusals;
  keep_run_refusals(run, world_size, Asked::whole_run, refusals);
  std::vector<std::string> told;
  for (const sim::Refusal& one : refusals.all())
    if (!is_about_absence(one)) told.push_back(fmt::format("{} ({})", one.option, one.rule));
  if (told.empty()) return {};
  return {{"megatron_refuses", fmt::format("Megatron refuses the run for {}; replay reports the numbers and "
                                           "what to try",
                                           first_names(told, kMostTold))}};
}

}  // namespace verify
