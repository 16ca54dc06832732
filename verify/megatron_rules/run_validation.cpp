#include "verify/megatron_rules/run_validation.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iterator>

#include "sim/base/error.h"
#include "sim/base/printable_text.h"
#include "verify/megatron_rules/attention_window.h"
#include "verify/megatron_rules/memory_arguments.h"
#include "verify/megatron_rules/program_warnings.h"
#include "verify/megatron_rules/rule_facts.h"
#include "verify/megatron_rules/rule_table.h"
#include "verify/megatron_rules/run_argument_values.h"
#include "verify/run_arguments/argument_table.h"
#include "verify/vocabulary/hybrid_pattern.h"

namespace verify {

namespace {

/// Whether rules ask what the value of an argument is. Of others they mostly ask whether they are given.
bool has_judged_value(const std::string& argument) {
  return is_hybrid_pattern(argument) || is_number_argument(argument) || is_choice_argument(argument) ||
         shape_of_argument(argument) == ArgumentShape::list;
}

/// Returns the arguments whose values only a shell could tell, and which rules judge.
std::vector<std::string> values_not_known(const RunOfFile& run) {
  std::vector<std::string> names;
  for (const Unresolved& unknown : run.document.unresolved)
    if (has_judged_value(unknown.argument)) names.push_back(unknown.argument);
  return names;
}

/// Refuses words behind a flag, which would not read "False" as the absence of the flag.
void refuse_value_of_flag(const RunArgument& argument) {
  if (argument.values.empty()) return;
  sim::refuse(
      {.code = "flag_with_value",
       .option = fmt::format("--{}", argument.name),
       .numbers = fmt::format("'{}' in line {}", sim::printable_text(argument.values.front()), argument.line),
       .rule = "the argument is a flag: Megatron's parser stops at a word behind it",
       .hint = fmt::format("--{} alone, or no --{}", argument.name, argument.name)});
}

void refuse_missing_value(const RunArgument& argument) {
  if (!argument.values.empty()) return;
  sim::refuse({.code = "value_missing",
               .option = fmt::format("--{}", argument.name),
               .numbers = fmt::format("no word behind it in line {}", argument.line),
               .rule = "Megatron's parser takes a value behind this argument, and stops where there is none",
               .hint = fmt::format("--{} with its value, or no --{}", argument.name, argument.name)});
}

/// Whether the arguments are those of another program around Megatron Core, which gives defaults of its own.
bool has_rules_of_its_own(const RunOfFile& run) {
  return run.values.has("deepspeed") || run.values.has("actor-num-nodes") ||
         run.document.script.starts_with("megatron ");  // of ms-swift
}

/// Whether a word holds what a shell would replace: by nothing, by one word or by several.
bool is_expanded(const std::string& word) { return word.find_first_of("$`") != std::string::npos; }

void refuse_further_values(const RunArgument& argument) {
  if (argument.values.size() < 2 || std::ranges::any_of(argument.values, is_expanded)) return;
  const std::string words = fmt::format("{}", fmt::join(argument.values, " "));
  const std::string first = sim::printable_text(argument.values.front()).substr(0, 100);
  const bool is_whole = !first.ends_with(',');
  sim::refuse(
      {.code = "values_too_many",
       .option = fmt::format("--{}", argument.name),
       .numbers = fmt::format("'{}' in line {}", sim::printable_text(words).substr(0, 100), argument.line),
       .rule = "Megatron's parser takes one word behind this argument, and stops at the next one",
       .hint = is_whole ? fmt::format("--{} {}, or quotes around all of it", argument.name, first)
                        : fmt::format("--{} with quotes around all of its value", argument.name)});
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
  sim::refuse(
      {.code = "list_with_commas",
       .option = fmt::format("--{}", argument.name),
       .numbers = fmt::format("'{}' in line {}", sim::printable_text(*found).substr(0, 100), argument.line),
       .rule = "Megatron's parser takes the words of a list with blanks between them",
       .hint = fmt::format("--{} {}", argument.name, sim::printable_text(apart).substr(0, 100))});
}

/// Refuses what Megatron's parser does not take behind an argument of a script.
void refuse_words_of(const RunArgument& argument) {
  switch (shape_of_argument(argument.name)) {
    case ArgumentShape::flag:
      return refuse_value_of_flag(argument);
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
         !is_number_argument(argument) && !is_choice_argument(argument);
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

/// Warns of arguments that are none of Megatron's: a name that is misspelled changes what is computed.
std::vector<sim::Warning> warnings_of_unknown_arguments(const RunOfFile& run) {
  std::vector<std::string> names;
  for (const UnknownArgument& argument : run.account.unknown) {
    const std::string nearest =
        argument.nearest.empty() ? "" : fmt::format(" (the nearest name is --{})", argument.nearest);
    names.push_back(fmt::format("--{}{}", sim::printable_text(argument.name), nearest));
  }
  if (names.empty()) return {};
  const char* stops = run.document.kind == RunFileKind::log
                          ? ""
                          : ", and Megatron stops at an argument that its training script does not add";
  return {{"unknown_arguments",
           fmt::format("what {} would change is neither proved nor counted{}", first_of(names), stops)}};
}

/// Warns of words that Megatron's parser does not take and that change nothing, or are those of a fork.
std::vector<sim::Warning> warnings_of_other_words(const RunOfFile& run) {
  if (run.document.kind == RunFileKind::log || has_rules_of_its_own(run)) return {};
  std::vector<std::string> told;
  for (const std::string& argument : open_choice_arguments()) {
    for (const std::string& word : words_of_forks(run.values, argument))
      told.push_back(fmt::format("--{} '{}'", argument, sim::printable_text(word).substr(0, 100)));
  }
  sim::Refusals refusals;
  keep_unparsed_words(run, is_free_text, refusals);
  for (const sim::Refusal& one : refusals.all())
    told.push_back(fmt::format("{}: {}", one.option, one.numbers));
  if (told.empty()) return {};
  return {{"other_words",
           fmt::format(
               "{}: Megatron-LM takes other words there; forks may take these, and no size depends on them",
               first_of(told))}};
}

/// Warns of arguments with "_" in their names, which Megatron's parser knows with "-" alone.
std::vector<sim::Warning> warnings_of_underscores(const RunOfFile& run) {
  std::vector<std::string> names;
  for (const RunArgument& argument : run.document.with_underscores)
    names.push_back(fmt::format("--{} in line {}", sim::printable_text(argument.name), argument.line));
  if (names.empty()) return {};
  return {{"underscores_in_names",
           fmt::format("{}: Megatron's parser knows these names with '-' in the place of '_', and stops at "
                       "others; they are taken for the names with '-'",
                       first_of(names))}};
}

/// Warns of names of a log of Megatron's, which its parser derives and does not take.
std::vector<sim::Warning> warnings_of_derived_names(const RunOfFile& run) {
  static constexpr std::string_view kDerived[] = {"virtual-pipeline-model-parallel-size",
                                                  "data-parallel-size",
                                                  "world-size",
                                                  "rank",
                                                  "params-dtype",
                                                  "consumed-train-samples",
                                                  "add-bias-linear",
                                                  "apply-rope-fusion",
                                                  "bias-dropout-fusion",
                                                  "bias-gelu-fusion",
                                                  "bias-swiglu-fusion",
                                                  "masked-softmax-fusion",
                                                  "gradient-accumulation-fusion",
                                                  "persist-layer-norm",
                                                  "overlap-p2p-comm",
                                                  "batch-p2p-comm",
                                                  "use-gloo-process-groups",
                                                  "check-for-nan-in-loss-and-grad",
                                                  "create-attention-mask-in-dataloader",
                                                  "fp8",
                                                  "fp4",
                                                  "align-grad-reduce",
                                                  "align-param-gather",
                                                  "manual-gc-eval"};
  if (!run.document.has_words()) return {};
  std::vector<std::string> names;
  for (const RunArgument& argument : run.document.given) {
    if (!argument.is_option && std::ranges::find(kDerived, argument.name) != std::end(kDerived))
      names.push_back(fmt::format("--{} in line {}", argument.name, argument.line));
  }
  if (names.empty()) return {};
  return {{"derived_names", fmt::format("{}: these are names of Megatron's variables and of none of its "
                                        "arguments, and its parser stops at them",
                                        first_of(names))}};
}

/// Warns of arguments that are used and stand in the file with different values.
std::vector<sim::Warning> warnings_of_repeated_arguments(const RunOfFile& run) {
  std::vector<std::string> told;
  for (const RunValues::Repeated& repeated : run.values.repeated()) {
    const ArgumentRow* row = find_argument(repeated.name);
    if (row == nullptr || row->use != ArgumentUse::used) continue;
    told.push_back(sim::printable_text(fmt::format(
        "--{} is '{}' in line {} and '{}' in line {}", repeated.name, fmt::join(repeated.first.words, " "),
        repeated.first.line, fmt::join(repeated.last.words, " "), repeated.last.line)));
  }
  if (told.empty()) return {};
  return {{"repeated_arguments",
           fmt::format("{}: Megatron's parser takes the last value without a word", first_of(told))}};
}

/// Warns of words that may hold further arguments, which nobody can read.
std::vector<sim::Warning> warnings_of_unknown_words(const RunOfFile& run) {
  std::vector<std::string> words;
  for (const Unresolved& unknown : run.document.unresolved) {
    if (!unknown.argument.empty() || unknown.is_of_world || adds_nothing_that_counts(unknown)) continue;
    std::string word =
        fmt::format("{} in line {}", sim::printable_text(unknown.text.substr(0, 80)), unknown.line);
    if (!unknown.variable.empty()) word += fmt::format(" (--set {}=VALUE)", unknown.variable);
    if (std::ranges::find(words, word) == words.end()) words.push_back(std::move(word));
  }
  if (words.empty()) return {};
  return {{"unresolved_words", fmt::format("{} may hold more arguments, or another command: what they would "
                                           "change is neither proved nor counted",
                                           first_of(words))}};
}

/// What a sentence calls the text of the run.
const char* text_name(const RunOfFile& run) {
  return run.document.kind == RunFileKind::command ? "the command" : "the file";
}

/// Warns of a number of connections with which Megatron trains on some devices alone.
std::vector<sim::Warning> warnings_of_connections(const RunOfFile& run) {
  const RunValues& values = run.values;
  const bool is_cut = values.number("tensor-model-parallel-size").value_or(1) > 1 ||
                      values.number("context-parallel-size").value_or(1) > 1;
  const bool needs_more = values.flag("use-torch-fsdp2") || values.flag("use-megatron-fsdp") ||
                          values.flag("overlap-moe-expert-parallel-comm");
  const auto connections = run.document.environment.find("CUDA_DEVICE_MAX_CONNECTIONS");
  const bool is_set = connections != run.document.environment.end();
  if (!is_cut || needs_more || values.has("deepspeed") ||
      (is_set ? connections->second == "1" : !run.document.has_words()))
    return {};
  return {{"max_connections_not_1",
           fmt::format("{} {} CUDA_DEVICE_MAX_CONNECTIONS{}: on devices before Blackwell, "
                       "Megatron refuses tensor and context parallelism without 1",
                       text_name(run), is_set ? "sets" : "does not set",
                       is_set ? " to " + connections->second : "")}};
}

/// Warns of activations on the host, for which Megatron wants a variable with a newer Transformer Engine.
std::vector<sim::Warning> warnings_of_offloading(const RunOfFile& run) {
  const auto version = run.document.environment.find("NVTE_CPU_OFFLOAD_V1");
  const bool is_set = version != run.document.environment.end();
  const bool is_silent = !is_set && !run.document.has_words();
  if (!run.values.flag("fine-grained-activation-offloading") || is_silent ||
      (is_set && version->second == "1"))
    return {};
  return {{"offload_v1_not_1",
           fmt::format("{} does not set NVTE_CPU_OFFLOAD_V1 to 1: from Transformer Engine 2.10 on, Megatron "
                       "refuses --fine-grained-activation-offloading without it",
                       text_name(run))}};
}

/// Whether a refusal says that something is not given, which a checkpoint or a defaults file may hold.
bool is_about_absence(const sim::Refusal& refusal) {
  static constexpr std::string_view kCodes[] = {"required_arg_missing", "no_layer_count", "no_seq_length",
                                                "micro_batch_missing"};
  return std::ranges::find(kCodes, refusal.code) != std::end(kCodes);
}

}  // namespace

std::vector<sim::Warning> warnings_of_file(const RunOfFile& run) {
  std::vector<sim::Warning> warnings = warnings_of_unknown_arguments(run);
  std::ranges::move(warnings_of_other_words(run), std::back_inserter(warnings));
  std::ranges::move(warnings_of_underscores(run), std::back_inserter(warnings));
  std::ranges::move(warnings_of_derived_names(run), std::back_inserter(warnings));
  std::ranges::move(warnings_of_repeated_arguments(run), std::back_inserter(warnings));
  std::ranges::move(warnings_of_unknown_words(run), std::back_inserter(warnings));
  if (!run.document.contradictions.empty())
    warnings.push_back(
        {"launch_contradicts", fmt::format("{}", fmt::join(run.document.contradictions, "; "))});
  std::ranges::move(warnings_of_program(run), std::back_inserter(warnings));
  return warnings;
}

std::vector<sim::Warning> run_warnings(const RunOfFile& run) {
  std::vector<sim::Warning> warnings = warnings_of_connections(run);
  std::ranges::move(warnings_of_offloading(run), std::back_inserter(warnings));
  std::ranges::move(window_warnings(run.values), std::back_inserter(warnings));
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

std::vector<std::string> rules_not_held(const RunOfFile& run) {
  if (!run.values.has("deepspeed")) return {};
  return {"moe_tp_needs_sp", "moe_bias_etp"};  // the experts are those of DeepSpeed
}

std::vector<std::string> rules_of_a_step(const RunOfFile& run) {
  if (!run.is_given()) return {};
  std::vector<std::string> codes = {"groups_div", "topk_above_experts"};
  if (!run.values.has("train-iters") && !run.values.has("train-samples") && !run.values.has("deepspeed"))
    codes.emplace_back("moe_tp_needs_sp");
  return codes;
}

}  // namespace verify
