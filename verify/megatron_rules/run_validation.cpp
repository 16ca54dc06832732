#include "verify/megatron_rules/run_validation.h"

#include <algorithm>
#include <cctype>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iterator>

#include "sim/base/error.h"
#include "sim/base/printable_text.h"
#include "verify/megatron_rules/rule_facts.h"
#include "verify/megatron_rules/rule_table.h"
#include "verify/megatron_rules/run_argument_values.h"
#include "verify/run_arguments/argument_table.h"
#include "verify/vocabulary/hybrid_pattern.h"

namespace verify {

namespace {

/// Whether rules ask what the value of an argument is. Of others they mostly ask whether they are given.
bool has_judged_value(const std::string& argument) {
  return is_hybrid_pattern(argument) || number_kind_of_argument(argument) != NumberKind::none ||
         is_choice_argument(argument) || shape_of_argument(argument) == ArgumentShape::list;
}

/// Returns the arguments whose values only a shell could tell, and which rules judge.
std::vector<std::string> values_not_known(const RunOfFile& run) {
  std::vector<std::string> names;
  for (const Unresolved& unknown : run.document.unresolved)
    if (has_judged_value(unknown.argument)) names.push_back(unknown.argument);
  return names;
}

/// Whether the arguments are those of another program around Megatron Core, which gives defaults of its own.
bool has_rules_of_its_own(const RunOfFile& run) {
  return run.values.has("deepspeed") || run.values.has("actor-num-nodes") ||
         run.document.script.starts_with("megatron ");  // of ms-swift
}

/// Whether a word holds what a shell would replace: by nothing, by one word or by several.
bool is_expanded(const std::string& word) { return word.find_first_of("$`") != std::string::npos; }

/// Refuses the words behind an argument. `hint` begins with the argument.
[[noreturn]] void refuse_words(const char* code, const RunArgument& argument, const std::string& words,
                               const char* rule, const std::string& hint) {
  sim::refuse({.code = code,
               .option = fmt::format("--{}", argument.name),
               .numbers = fmt::format("{} in line {}", words, argument.line),
               .rule = rule,
               .hint = fmt::format("--{}{}", argument.name, hint)});
}
std::string quoted(const std::string& text) {
  return fmt::format("'{}'", sim::printable_text(text).substr(0, 100));
}

void refuse_missing_value(const RunArgument& argument) {
  if (argument.values.empty())
    refuse_words("value_missing", argument, "no word behind it",
                 "Megatron's parser takes a value behind this argument, and stops where there is none",
                 fmt::format(" with its value, or no --{}", argument.name));
}

void refuse_further_values(const RunArgument& argument) {
  if (argument.values.size() < 2 || std::ranges::any_of(argument.values, is_expanded)) return;
  const std::string first = sim::printable_text(argument.values.front()).substr(0, 100);
  refuse_words("values_too_many", argument, quoted(fmt::format("{}", fmt::join(argument.values, " "))),
               "Megatron's parser takes one word behind this argument, and stops at the next one",
               first.ends_with(',') ? " with quotes around all of its value"
                                    : fmt::format(" {}, or quotes around all of it", first));
}

/// Refuses "a,b", which Megatron's parser takes for one word.
void refuse_commas(const RunArgument& argument) {
  const auto is_joined = [](const std::string& word) {
    return word.find(',') != std::string::npos && !word.starts_with("[") && !is_expanded(word);
  };
  const auto found = std::ranges::find_if(argument.values, is_joined);
  if (found == argument.values.end() || !has_plain_words(argument.name)) return;
  std::string apart = *found;
  std::ranges::replace(apart, ',', ' ');
  refuse_words("list_with_commas", argument, quoted(*found),
               "Megatron's parser takes the words of a list with blanks between them",
               fmt::format(" {}", sim::printable_text(apart).substr(0, 100)));
}

/// Refuses what Megatron's parser does not take behind an argument of a script. A word behind a flag, such as
/// "False", would not turn it off.
void refuse_words_of(const RunArgument& argument) {
  switch (shape_of_argument(argument.name)) {
    case ArgumentShape::flag:
      if (!argument.values.empty())
        refuse_words("flag_with_value", argument,
                     fmt::format("'{}'", sim::printable_text(argument.values.front())),
                     "the argument is a flag: Megatron's parser stops at a word behind it",
                     fmt::format(" alone, or no --{}", argument.name));
      return;
    case ArgumentShape::value:
      refuse_missing_value(argument);
      return refuse_further_values(argument);
    case ArgumentShape::list:
      refuse_missing_value(argument);
      return refuse_commas(argument);
    case ArgumentShape::maybes:
    case ArgumentShape::unknown:
      return;
  }
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
  const std::vector<std::string> unknown = values_not_known(run);
  const auto is_judged = [&](const std::string& argument) { return is_asked(asked, argument); };
  RunValues readable = run.values;
  for (const auto& [name, value] : run.values.all())
    if (!is_judged(name) || std::ranges::find(unknown, name) != unknown.end()) readable.remove(name);
  bool is_refused = keep_unreadable_values(readable, refusals);
  is_refused |= keep_unparsed_words(run, is_judged, refusals);
  const RuleFacts facts(run.values, run.document.environment, world_size);
  const auto is_unknown = [&](const std::string& name) {
    return std::ranges::find(unknown, name) != unknown.end();
  };
  for (const MegatronRule& rule : megatron_rules()) {
    const bool is_left_out = asked == Asked::sizes && std::ranges::all_of(rule.arguments, has_no_size);
    const bool is_held = rule.is_of_runs && !is_left_out && std::ranges::none_of(rule.arguments, is_unknown);
    if (is_held && rule.is_broken(facts))
      is_refused |= !refusals.keep([&] { sim::refuse(rule.refusal(facts)); });
  }
  return is_refused;
}

namespace {

/// Returns the first of these texts and how many are left out.
std::string first_of(const std::vector<std::string>& texts) {
  constexpr std::size_t kMostTold = 6;
  if (texts.size() <= kMostTold) return fmt::format("{}", fmt::join(texts, ", "));
  return fmt::format("{} and {} more", fmt::join(texts.begin(), texts.begin() + kMostTold, ", "),
                     texts.size() - kMostTold);
}

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
    const ArgumentRow* row = find_argument(repeated.name);
    if (row == nullptr || row->use != ArgumentUse::used) continue;
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
  std::vector<std::string> words(1);
  for (const char c : script) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      words.back() += c;
    } else {
      words.emplace_back();
    }
  }
  return words;
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
    if (!told.empty()) warnings.push_back({name, before + first_of(told) + after});
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
  return {{"megatron_refuses", fmt::format("Megatron refuses the run for {}; replay tells the numbers and "
                                           "what to try",
                                           first_of(told))}};
}

}  // namespace verify
