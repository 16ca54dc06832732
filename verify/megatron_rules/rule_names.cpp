#include "verify/megatron_rules/rule_names.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/error.h"
#include "verify/megatron_rules/effective_values.h"
#include "verify/megatron_rules/expression.h"
#include "verify/output/table_rows.h"
#include "verify/vocabulary/batch_schedule.h"
#include "verify/vocabulary/hybrid_pattern.h"
#include "verify/vocabulary/layer_pattern.h"
#include "verify/vocabulary/recompute_modules.h"

namespace verify {

namespace {

constexpr std::string_view kNames =
#include "rule_names.tsv.inc"
    ;

// ---- the schedule of the batch

BatchSchedule schedule_of(const RuleFacts& facts) {
  const std::optional<double> length = number_of(facts.derived("seq_length"));
  return parse_batch_schedule(facts.text("step-batch-size-schedule"),
                              length ? std::optional(static_cast<std::int64_t>(*length)) : std::nullopt);
}
RuleValue is_schedule_readable(const RuleFacts& facts) {
  const BatchSchedule schedule = schedule_of(facts);
  return !schedule.steps.empty() && schedule.unreadable.empty();
}
RuleValue schedule_start(const RuleFacts& facts) {
  const std::vector<BatchStep> steps = schedule_of(facts).steps;
  return steps.empty() ? RuleValue(Absent{}) : RuleValue(static_cast<double>(steps.front().samples));
}
RuleValue does_schedule_repeat(const RuleFacts& facts) {
  const std::vector<BatchStep> steps = schedule_of(facts).steps;  // sorted
  return std::ranges::adjacent_find(steps, std::ranges::equal_to(), &BatchStep::samples) != steps.end();
}
RuleValue smallest_of_schedule(const RuleFacts& facts) {
  const std::vector<BatchStep> steps = schedule_of(facts).steps;
  const auto smallest = std::ranges::min_element(steps, {}, &BatchStep::size);
  return smallest == steps.end() ? RuleValue(Absent{}) : RuleValue(static_cast<double>(smallest->size));
}

// ---- patterns of layers

/// Nothing where the pattern cannot be read, which another rule refuses.
std::optional<LayerPattern> readable_pattern(const std::string& text) {
  try {
    return parse_layer_pattern(text);
  } catch (const sim::Error&) {
    return std::nullopt;
  }
}
std::optional<LayerPattern> expert_layers(const RuleFacts& facts) {
  const std::string given = facts.text("moe-layer-freq");
  return readable_pattern(given.empty() ? "1" : given);
}
RuleValue leaves_dense_layers(const RuleFacts& facts) {
  const std::optional<LayerPattern> layers = expert_layers(facts);
  return layers ? RuleValue(verify::leaves_dense_layers(*layers)) : RuleValue(Unknown{});
}
RuleValue expert_entries(const RuleFacts& facts) {
  const std::optional<LayerPattern> layers = expert_layers(facts);
  return layers ? RuleValue(static_cast<double>(layers->entries.size())) : RuleValue(Unknown{});
}
RuleValue wrong_expert_entry(const RuleFacts& facts) {
  const std::optional<LayerPattern> layers = expert_layers(facts);
  if (!layers) return Unknown{};
  const auto wrong =
      std::ranges::find_if(layers->entries, [](std::int64_t entry) { return entry != 0 && entry != 1; });
  return wrong == layers->entries.end() ? RuleValue(Absent{}) : RuleValue(static_cast<double>(*wrong));
}
/// Every N-th layer, of a multiple of N, or a list with an entry for each layer; 0 is none.
RuleValue do_layers_without_rope_fit(const RuleFacts& facts) {
  const std::string given = facts.text("no-rope-freq");
  const std::optional<double> layers = number_of(facts.derived("num_layers"));
  if (given.empty() || given == "0") return true;
  const std::optional<LayerPattern> pattern = readable_pattern(given);
  if (!pattern || !layers) return false;
  const auto count = static_cast<std::int64_t>(*layers);
  return pattern->entries.empty() ? count % pattern->every == 0 : std::ssize(pattern->entries) == count;
}

// ---- patterns of Mamba and other layers

HybridPattern hybrid_of(const RuleFacts& facts) {
  return parse_hybrid_pattern(*text_of(named_value("hybrid_pattern", facts)));
}
RuleValue hybrid_segments(const RuleFacts& facts) {
  return static_cast<double>(hybrid_of(facts).segments.size());
}
RuleValue has_unknown_hybrid_symbol(const RuleFacts& facts) {
  return text_of(named_value("hybrid_pattern", facts))->find_first_not_of("M-*EDG+|/") != std::string::npos;
}
RuleValue do_hybrid_depths_differ(const RuleFacts& facts) {
  const std::vector<std::string> depths = hybrid_of(facts).predictions;
  return std::ranges::adjacent_find(depths, std::ranges::not_equal_to()) != depths.end();
}

// ---- modules and ways to communicate

/// The modules that have CUDA graphs: those of the older argument if the newer one is not given. None: all.
RuleValue captured_modules(const RuleFacts& facts) {
  std::vector<std::string> modules = words_of(facts.argument("cuda-graph-modules"));
  if (modules.empty()) modules = words_of(facts.argument("cuda-graph-scope"));
  std::erase_if(modules, [](const std::string& one) { return one.starts_with("full"); });
  return modules;
}
RuleValue known_recompute_modules(const RuleFacts&) {
  return std::vector<std::string>(kRecomputeModules.begin(), kRecomputeModules.end());
}
RuleValue do_all_gather_tokens(const RuleFacts& facts) {
  const std::vector<std::string> kinds = words_of(facts.argument("cp-comm-type"));
  return !kinds.empty() && std::ranges::all_of(kinds, gathers_tokens);
}

using NameFunction = RuleValue (*)(const RuleFacts&);
const std::map<std::string_view, NameFunction>& name_functions() {
  static const std::map<std::string_view, NameFunction> all = {
      {"schedule_is_readable", is_schedule_readable},
      {"schedule_start", schedule_start},
      {"schedule_repeats_a_step", does_schedule_repeat},
      {"schedule_smallest_size", smallest_of_schedule},
      {"leaves_dense_layers", leaves_dense_layers},
      {"expert_entries", expert_entries},
      {"wrong_expert_entry", wrong_expert_entry},
      {"layers_without_rope_fit", do_layers_without_rope_fit},
      {"hybrid_segments", hybrid_segments},
      {"hybrid_unknown_symbol", has_unknown_hybrid_symbol},
      {"hybrid_depths_differ", do_hybrid_depths_differ},
      {"captured_modules", captured_modules},
      {"recompute_modules_known", known_recompute_modules},
      {"all_gather_tokens", do_all_gather_tokens}};
  return all;
}

}  // namespace

const std::map<std::string, Expression, std::less<>>& named_expressions() {
  static const std::map<std::string, Expression, std::less<>> all = [] {
    std::map<std::string, Expression, std::less<>> by_name;
    for (const TextRow& row : rows_of_table(kNames)) by_name.emplace(row.at(0), Expression(row.at(1)));
    return by_name;
  }();
  return all;
}

RuleValue named_value(std::string_view name, const RuleFacts& facts) {
  if (const auto found = named_expressions().find(name); found != named_expressions().end())
    return found->second.value(facts);
  const auto found = name_functions().find(name);
  return found == name_functions().end() ? facts.derived(name) : found->second(facts);
}

bool is_rule_name(std::string_view name) {
  return named_expressions().contains(name) || name_functions().contains(name);
}

}  // namespace verify
