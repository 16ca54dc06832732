#include "verify/vocabulary/derived_options.h"

#include <fmt/format.h>
#include <string_view>

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

namespace {

constexpr std::int64_t kHalf = 2, kFull = 4;

std::int64_t bytes_of(std::string_view dtype) {
  if (dtype == "fp32") return kFull;
  return dtype == "fp8" ? 1 : kHalf;
}

void add_optimizer_bytes(const Settings& settings, StateBytes& bytes) {
  const bool has_main = bytes.parameter != kFull;
  std::int64_t moments = 2 * kFull;
  bytes.main = has_main ? kFull : 0;
  if (settings.flag("use-precision-aware-optimizer")) {
    const bool keeps_remainder = is_bf16(settings) && settings.choice("main-params-dtype") == "fp32";
    if (has_main) bytes.main = keeps_remainder ? kHalf : bytes_of(settings.choice("main-params-dtype"));
    moments = bytes_of(settings.choice("exp-avg-dtype")) + bytes_of(settings.choice("exp-avg-sq-dtype"));
  } else if (bytes.gradient != kFull) {
    bytes.copied_gradient = kFull;
  }
  bytes.optimizer = bytes.main + moments + bytes.copied_gradient;
}

}  // namespace

bool is_bf16(const Settings& settings) {
  return settings.has("bf16") ? settings.flag("bf16") : !settings.flag("fp16");
}

StateBytes state_bytes(const Settings& settings) {
  const bool is_half = is_bf16(settings) || settings.flag("fp16");
  const bool reduces_in_fp32 = is_bf16(settings) ? settings.choice("main-grads-dtype") == "fp32" &&
                                                       !settings.flag("grad-reduce-in-bf16")
                                                 : settings.flag("accumulate-allreduce-grads-in-fp32");
  StateBytes bytes{.dtypes = is_bf16(settings) ? "bf16"
                             : is_half         ? "fp16"
                                               : "fp32",
                   .is_distributed = !settings.flag("no-distributed-optimizer")};
  bytes.parameter = bytes_of(bytes.dtypes);
  bytes.gradient = reduces_in_fp32 ? kFull : bytes.parameter;
  add_optimizer_bytes(settings, bytes);
  if (bytes.gradient != kFull) bytes.dtypes += " with gradients in " + bytes.dtypes;
  constexpr std::int64_t kUsual = 3 * kFull;
  if (bytes.optimizer != kUsual)
    bytes.dtypes += fmt::format(", optimizer states of {} bytes", bytes.optimizer);
  return bytes;
}

}  // namespace verify
