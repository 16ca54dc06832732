#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstddef>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iterator>
#include <sstream>

#include "sim/base/error.h"
#include "verify/megatron_rules/expression.h"
#include "verify/output/table_rows.h"
#include "verify/vocabulary/derived_options.h"
#include "verify/vocabulary/layer_pattern.h"
#include "verify/vocabulary/spelled_values.h"

namespace verify {

namespace {

constexpr std::string_view kNames =
#include "rule_names.tsv.inc"
    ;

// ---- the schedule of the batch
//
// Its sizes one after another, as --step-batch-size-schedule says.
//
// Shapes  "0:16 1B:32", with blanks or commas between the entries. A threshold is in tokens, and becomes
//         samples by the sequence length, where that is known. K, M, B and T stand for 10^3, 10^6, 10^9 and
//         10^12.
// Exact   Steps are sorted by their thresholds, as Megatron sorts them. The first one counts at the start.

struct BatchStep {
  std::int64_t samples = 0;  // from which this size counts
  std::int64_t size = 0;
};

struct BatchSchedule {
  std::vector<BatchStep> steps;
  bool is_readable = true;  // whether each entry is a threshold and a size
};

/// Reads "200B" as 200 * 10^9.
std::optional<std::int64_t> amount(std::string_view text) {
  static constexpr std::string_view kSuffixes = "KMBT";
  constexpr double kLargest = 9e18;
  double unit = 1;
  if (const std::size_t suffix = text.empty() ? std::string_view::npos : kSuffixes.find(text.back());
      suffix != std::string_view::npos) {
    unit = std::pow(1000.0, static_cast<double>(suffix + 1));
    text.remove_suffix(1);
  }
  const auto number = decimal_number(text);
  if (!number || !(std::abs(*number * unit) < kLargest)) return std::nullopt;
  return static_cast<std::int64_t>(*number * unit);
}

BatchSchedule parse_batch_schedule(std::string text, std::optional<std::int64_t> seq_length) {
  BatchSchedule schedule;
  std::replace(text.begin(), text.end(), ',', ' ');
  const std::int64_t tokens_of_sample = std::max<std::int64_t>(1, seq_length.value_or(1));
  std::istringstream entries(text);
  for (std::string entry; entries >> entry;) {
    const std::size_t colon = entry.find(':');
    const auto threshold = amount(std::string_view(entry).substr(0, colon));
    const auto size = colon == std::string::npos ? std::nullopt : amount(entry.substr(colon + 1));
    schedule.is_readable = schedule.is_readable && threshold && size;
    if (threshold && size) schedule.steps.push_back({*threshold / tokens_of_sample, *size});
  }
  std::ranges::stable_sort(schedule.steps, {}, &BatchStep::samples);
  return schedule;
}

BatchSchedule schedule_of(const RuleFacts& facts) {
  const std::optional<double> length = number_of(facts.derived("seq_length"));
  return parse_batch_schedule(facts.text("step-batch-size-schedule"),
                              length ? std::optional(static_cast<std::int64_t>(*length)) : std::nullopt);
}
RuleValue is_schedule_readable(const RuleFacts& facts) {
  const BatchSchedule schedule = schedule_of(facts);
  return !schedule.steps.empty() && schedule.is_readable;
}
template <std::int64_t BatchStep::*Member>
RuleValue first_of_schedule(const RuleFacts& facts) {
  const std::vector<BatchStep> steps = schedule_of(facts).steps;
  return number_or_absent(steps.empty() ? std::nullopt : std::optional(steps.front().*Member));
}
RuleValue does_schedule_repeat(const RuleFacts& facts) {
  const std::vector<BatchStep> steps = schedule_of(facts).steps;  // sorted
  return std::ranges::adjacent_find(steps, std::ranges::equal_to(), &BatchStep::samples) != steps.end();
}
RuleValue smallest_of_schedule(const RuleFacts& facts) {
  const std::vector<BatchStep> steps = schedule_of(facts).steps;
  const auto smallest = std::ranges::min_element(steps, {}, &BatchStep::size);
  return number_or_absent(smallest == steps.end() ? std::nullopt : std::optional(smallest->size));
}

// ---- patterns of layers

/// Nothing where the pattern cannot be read, which another rule refuses.
std::optional<sim::LayerPattern> readable_pattern(const std::string& text) {
  try {
    return parse_layer_pattern(text);
  } catch (const sim::Error&) {
    return std::nullopt;
  }
}
std::optional<sim::LayerPattern> expert_layers(const RuleFacts& facts) {
  const std::string given = facts.text("moe-layer-freq");
  return readable_pattern(given.empty() ? "1" : given);
}
RuleValue leaves_dense_layers(const RuleFacts& facts) {
  const std::optional<sim::LayerPattern> layers = expert_layers(facts);
  return layers ? RuleValue(layers->leaves_layers_out()) : RuleValue(Unknown{});
}
RuleValue expert_entries(const RuleFacts& facts) {
  const std::optional<sim::LayerPattern> layers = expert_layers(facts);
  return layers ? RuleValue(static_cast<double>(layers->entries.size())) : RuleValue(Unknown{});
}
RuleValue wrong_expert_entry(const RuleFacts& facts) {
  const std::optional<sim::LayerPattern> layers = expert_layers(facts);
  if (!layers) return Unknown{};
  const auto wrong =
      std::ranges::find_if(layers->entries, [](std::int64_t entry) { return entry != 0 && entry != 1; });
  return number_or_absent(wrong == layers->entries.end() ? std::nullopt : std::optional(*wrong));
}
/// Every N-th layer, of a multiple of N, or a list with an entry for each layer; 0 is none.
RuleValue do_layers_without_rope_fit(const RuleFacts& facts) {
  const std::string given = facts.text("no-rope-freq");
  const std::optional<double> layers = number_of(facts.derived("num_layers"));
  if (given.empty() || given == "0") return true;
  const std::optional<sim::LayerPattern> pattern = readable_pattern(given);
  if (!pattern || !layers) return false;
  const auto count = static_cast<std::int64_t>(*layers);
  return pattern->entries.empty() ? count % pattern->every == 0 : std::ssize(pattern->entries) == count;
}

// ---- patterns of Mamba and other layers

HybridPattern hybrid_of(const RuleFacts& facts) {
  return parse_hybrid_pattern(*text_of(named_value("hybrid_pattern", facts)));
}
RuleValue hybrid_layers(const RuleFacts& facts) { return number_or_absent(hybrid_of(facts).layers()); }
template <std::vector<std::string> HybridPattern::*Parts>
RuleValue count_of_hybrid(const RuleFacts& facts) {
  return number_or_absent(std::ssize(hybrid_of(facts).*Parts));
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
/// The modules that are recomputed if any are, with what --moe-layer-recompute adds.
RuleValue recomputed_modules(const RuleFacts& facts) {
  std::vector<std::string> modules = words_of(facts.argument("recompute-modules"));
  if (modules.empty()) modules = {"core_attn"};
  const bool has_experts = std::ranges::find(modules, "moe") != modules.end();
  if (facts.flag("moe-layer-recompute") && !has_experts) modules.emplace_back("moe");
  std::ranges::sort(modules);
  return modules;
}
RuleValue chunks(const RuleFacts& facts) { return number_or_absent(chunks_of_rank(facts)); }
RuleValue do_all_gather_tokens(const RuleFacts& facts) {
  const std::vector<std::string> kinds = words_of(facts.argument("cp-comm-type"));
  return !kinds.empty() && std::ranges::all_of(kinds, gathers_tokens);
}

// ---- attention and its window

RuleValue inner_level(const RuleFacts& facts) {
  const std::vector<std::string> levels = words_of(facts.argument("hierarchical-context-parallel-sizes"));
  return levels.empty() ? RuleValue(Absent{}) : RuleValue(std::vector{levels.front()});
}
template <std::int64_t WindowPair::*Side>
RuleValue side_of_window(const RuleFacts& facts) {
  const RuleValue given = facts.argument("window-size");
  const auto* words = std::get_if<std::vector<std::string>>(&given);
  const auto pair = words == nullptr ? std::nullopt : window_pair(fmt::format("{}", fmt::join(*words, ",")));
  return number_or_absent(pair ? std::optional((*pair).*Side) : std::nullopt);
}
/// The first layer with a window whose keys would go around a ring, counted from 1, and its kind.
std::optional<std::pair<std::int64_t, std::string>> window_on_a_ring(const RuleFacts& facts) {
  const sim::AttentionWindow window = attention_window(facts);
  const std::vector<std::string> kinds = words_of(facts.argument("cp-comm-type"));
  const std::vector<std::string> levels = words_of(facts.argument("hierarchical-context-parallel-sizes"));
  const bool has_outer_ring = levels.size() < 2 || levels[1] != "1";
  const std::int64_t layers =
      facts.number("num-layers").value_or(std::max<std::int64_t>(1, std::ssize(kinds)));
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    const std::size_t at = kinds.size() == 1 ? 0 : static_cast<std::size_t>(layer);
    const std::string kind = at < kinds.size() ? kinds[at] : "p2p";
    if (window.is_in(layer) && (kind == "p2p" || (kind == "a2a+p2p" && has_outer_ring)))
      return {{layer + 1, kind}};
  }
  return std::nullopt;
}
RuleValue layer_of_ring_window(const RuleFacts& facts) {
  const auto found = window_on_a_ring(facts);
  return number_or_absent(found ? std::optional(found->first) : std::nullopt);
}
RuleValue kind_of_ring_window(const RuleFacts& facts) {
  const auto found = window_on_a_ring(facts);
  return found ? RuleValue(found->second) : RuleValue(Absent{});
}

/// The ways to balance the load whose coefficients are above 0.
RuleValue balancing_losses(const RuleFacts& facts) {
  std::vector<std::string> types = words_of(facts.argument("moe-router-load-balancing-type")), losses;
  if (types.empty()) types = {"aux_loss"};
  const std::vector<std::string> coefficients = words_of(facts.argument("moe-aux-loss-coeff"));
  for (std::size_t i = 0; i < std::min(types.size(), coefficients.size()); ++i)
    if (decimal_number(coefficients[i]).value_or(0) > 0) losses.push_back(types[i]);
  return losses;
}

using NameFunction = RuleValue (*)(const RuleFacts&);
const std::map<std::string_view, NameFunction>& name_functions() {
  static const std::map<std::string_view, NameFunction> all = {
      {"schedule_is_readable", is_schedule_readable},
      {"schedule_start", first_of_schedule<&BatchStep::samples>},
      {"schedule_first_size", first_of_schedule<&BatchStep::size>},
      {"schedule_repeats_a_step", does_schedule_repeat},
      {"schedule_smallest_size", smallest_of_schedule},
      {"leaves_dense_layers", leaves_dense_layers},
      {"expert_entries", expert_entries},
      {"wrong_expert_entry", wrong_expert_entry},
      {"layers_without_rope_fit", do_layers_without_rope_fit},
      {"hybrid_layers", hybrid_layers},
      {"hybrid_depths", count_of_hybrid<&HybridPattern::predictions>},
      {"hybrid_segments", count_of_hybrid<&HybridPattern::segments>},
      {"hybrid_unknown_symbol", has_unknown_hybrid_symbol},
      {"hybrid_depths_differ", do_hybrid_depths_differ},
      {"inner_level", inner_level},
      {"window_left", side_of_window<&WindowPair::left>},
      {"window_right", side_of_window<&WindowPair::right>},
      {"layer_of_ring_window", layer_of_ring_window},
      {"kind_of_ring_window", kind_of_ring_window},
      {"balancing_losses", balancing_losses},
      {"captured_modules", captured_modules},
      {"recomputed_modules", recomputed_modules},
      {"chunks_of_rank", chunks},
      {"all_gather_tokens", do_all_gather_tokens}};
  return all;
}

}  // namespace

bool gathers_tokens(std::string cp_comm_type) {
  std::erase(cp_comm_type, '_');
  for (char& letter : cp_comm_type)
    letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return cp_comm_type == "allgather";
}

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
