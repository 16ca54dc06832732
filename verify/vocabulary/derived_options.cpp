#include "verify/vocabulary/derived_options.h"

#include "sim/base/error.h"
#include "sim/layout/layer_layout.h"
#include "verify/output/refusal_table.h"
#include "verify/vocabulary/layer_pattern.h"
#include "verify/vocabulary/settings.h"

namespace verify {

namespace {

/// Returns a number of ranks that has room for whole replicas of the layout, as an example.
std::int64_t fitting_world_size(const Settings& settings) {
  constexpr std::int64_t kFewRanks = 16;
  const auto size = [&](const char* name) { return settings.number(name).value_or(1); };
  auto ranks = product_of({size("tensor-model-parallel-size"), size("pipeline-model-parallel-size"),
                           size("context-parallel-size")});
  if (!ranks || *ranks < 1) return kFewRanks;
  while (*ranks < kFewRanks) *ranks *= 2;
  return *ranks;
}

}  // namespace

std::int64_t required_number(const Settings& settings, const std::string& name) {
  if (const auto value = settings.number(name)) return *value;
  refuse_by("missing_option", "--" + name, name == "world-size" ? fitting_world_size(settings) : 16);
}

std::optional<std::int64_t> virtual_pipeline_size(const Settings& settings) {
  if (const auto chunks = settings.number("virtual-pipeline-model-parallel-size")) return chunks;
  if (settings.has("num-layers-per-virtual-pipeline-stage")) required_number(settings, "num-layers");
  const std::int64_t chunks = chunks_of_rank(settings).value_or(1);
  return chunks > 1 ? std::optional(chunks) : std::nullopt;
}

std::optional<std::int64_t> query_groups(const Settings& settings) {
  if (const auto groups = settings.number("num-query-groups")) return groups;
  if (settings.flag("group-query-attention")) return 1;
  return settings.number("num-attention-heads");
}

std::optional<std::int64_t> ffn_hidden_size(const Settings& settings) {
  if (const auto ffn = settings.number("ffn-hidden-size")) return ffn;
  const auto hidden = settings.number("hidden-size");
  if (!hidden) return std::nullopt;
  return settings.flag("swiglu") ? 8 * *hidden / 3 / 64 * 64 : 4 * *hidden;
}

std::vector<std::string> missing_of_model_shape(const Settings& settings) {
  std::vector<std::string> missing = {"num-layers", "hidden-size", "num-attention-heads", "vocab-size",
                                      "seq-length"};
  std::erase_if(missing, [&](const std::string& name) { return settings.has(name); });
  return missing;
}

std::optional<std::int64_t> floored(std::optional<std::int64_t> dividend,
                                    std::optional<std::int64_t> divisor) {
  if (!dividend || !divisor || *divisor == 0) return std::nullopt;
  const std::int64_t quotient = *dividend / *divisor;
  const bool is_inexact = *dividend % *divisor != 0;
  return quotient - (is_inexact && (*dividend < 0) != (*divisor < 0) ? 1 : 0);
}

std::optional<std::int64_t> product_of(std::initializer_list<std::optional<std::int64_t>> factors) {
  std::int64_t all = 1;
  for (const std::optional<std::int64_t>& factor : factors)
    if (!factor || __builtin_mul_overflow(all, *factor, &all)) return std::nullopt;
  return all;
}

std::optional<std::int64_t> chunks_of_stages(const std::string& layout, const std::string& pattern,
                                             std::int64_t ranks) {
  try {
    const std::int64_t stages = layout.empty() ? std::ssize(parse_hybrid_pattern(pattern).segments)
                                               : sim::stages_of_layout(layout_string(layout));
    const bool is_said = !layout.empty() || stages > 1;
    return is_said && ranks > 0 && stages % ranks == 0 ? std::optional(stages / ranks) : std::nullopt;
  } catch (const sim::Error&) {
    return std::nullopt;
  }
}

}  // namespace verify
