#include "verify/requests/memory_options.h"

#include <algorithm>
#include <fmt/format.h>

#include "verify/megatron_rules/rule_facts.h"
#include "verify/output/refusal_table.h"
#include "verify/requests/model_options.h"
#include "verify/vocabulary/settings.h"
#include "verify/vocabulary/spelled_values.h"

namespace verify {

namespace {

bool has_dropout(const Settings& settings, const char* option) {
  const std::string text = settings.text(option, "0.1");  // Megatron's default
  const auto ratio = decimal_ratio(text);
  if (ratio) return ratio->numerator != 0;
  refuse_by("not_a_number/dropout", fmt::format("--{}", option), text);
}

LossKernel loss_kernel(const Settings& settings) {
  if (!settings.flag("cross-entropy-loss-fusion")) return LossKernel::unfused;
  return settings.choice("cross-entropy-fusion-impl") == "te" ? LossKernel::transformer_engine
                                                              : LossKernel::fused;
}

void add_recomputation(const Settings& settings, MemoryOptions& options) {
  const std::string granularity = settings.text("recompute-granularity", "");
  if (granularity == "selective") {
    options.recompute = RecomputeMethod::modules;
    options.modules = settings.has("recompute-modules") ? words_of(settings.given("recompute-modules"))
                                                        : std::vector<std::string>{"core_attn"};
  }
  if (!recomputes_layers(settings)) return;
  options.recompute =
      settings.text("recompute-method", "") == "block" ? RecomputeMethod::block : RecomputeMethod::uniform;
  options.recompute_layers = std::max<std::int64_t>(1, settings.number("recompute-num-layers").value_or(1));
}

std::int64_t router_bytes(const Settings& settings) {
  const std::string dtype = settings.choice("moe-router-dtype");
  return dtype == "fp32" ? 4 : dtype == "fp64" ? 8 : 0;
}

std::optional<std::int64_t> bytes_of(const Settings& settings, const char* option) {
  if (!settings.has(option)) return std::nullopt;
  return byte_size(option, settings.text(option, ""));
}

}  // namespace

bool recomputes_layers(const Settings& settings) {
  const bool takes_none =
      settings.text("recompute-method", "") == "block" && settings.number("recompute-num-layers") == 0;
  return settings.text("recompute-granularity", "") == "full" && !takes_none;
}

bool MemoryOptions::recomputes(const std::string& module) const {
  return recompute == RecomputeMethod::modules && std::ranges::find(modules, module) != modules.end();
}

MemoryOptions memory_options(const Settings& settings) {
  const std::string backend = settings.choice("attention-backend");
  const bool is_fp32 = settings.has("bf16") && !settings.flag("bf16") && !settings.flag("fp16");
  MemoryOptions options{
      .local_layers = settings.choice("transformer-impl") == "local" || backend == "local",
      .hidden_dropout = has_dropout(settings, "hidden-dropout"),
      .attention_dropout = has_dropout(settings, "attention-dropout"),
      .attention_mask = !settings.flag("no-create-attention-mask-in-dataloader"),
      .fused_weight_gradient = !settings.flag("no-gradient-accumulation-fusion"),
      .fused_gate = !settings.flag("no-bias-swiglu-fusion"),
      .te_activation = settings.flag("use-te-activation-func"),
      .fused_squared_relu = settings.flag("use-fused-weighted-squared-relu"),
      .fused_softmax = !settings.flag("no-masked-softmax-fusion") && !is_fp32,
      .softmax_in_fp32 = settings.flag("attention-softmax-in-fp32") && !is_fp32,
      .fused_rope = !settings.flag("no-rope-fusion"),
      .grouped_experts = settings.flag("moe-grouped-gemm"),
      .overlaps_shared_experts = settings.flag("moe-shared-expert-overlap"),
      .fused_permutation = settings.flag("moe-permute-fusion"),
      .fused_router = settings.flag("moe-router-fusion"),
      .router_bytes = router_bytes(settings),
      .gathers_keys = kind_of_all_layers(cp_comm_types(settings)) == sim::CpCommType::all_gather,
      .loss = loss_kernel(settings),
      .distributes_saved = settings.flag("distribute-saved-activations"),
      .workspace = bytes_of(settings, "workspace-memory"),
      .gpu_memory = bytes_of(settings, "gpu-memory")};
  if (settings.flag("defer-embedding-wgrad-compute"))
    options.deferred_microbatches = settings.number("wgrad-deferral-limit").value_or(0);
  // Flash kernels take 16 bits.
  options.keeps_scores = options.local_layers || backend == "unfused" || is_fp32;
  add_recomputation(settings, options);
  return options;
}

}  // namespace verify
