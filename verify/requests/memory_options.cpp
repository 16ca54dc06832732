#include "verify/requests/memory_options.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <span>
#include <utility>

#include "sim/base/error.h"
#include "sim/base/refusals.h"
#include "verify/requests/context_options.h"
#include "verify/vocabulary/byte_size.h"
#include "verify/vocabulary/decimal_ratio.h"
#include "verify/vocabulary/recompute_modules.h"
#include "verify/vocabulary/settings.h"

namespace verify {

namespace {

bool has_dropout(const Settings& settings, const char* option) {
  if (!settings.has(option)) return true;  // Megatron's default is 0.1
  const std::string text = settings.text(option, "");
  const auto ratio = decimal_ratio(text);
  if (ratio) return ratio->numerator != 0;
  sim::refuse({.code = "not_a_number",
               .option = fmt::format("--{}", option),
               .numbers = fmt::format("'{}'", text),
               .rule = "the value is a decimal number",
               .hint = fmt::format("--{} 0.1", option)});
}

/// Returns the modules that are computed again. A list may be one of Python's, with brackets and quotes.
std::vector<std::string> recomputed_modules(const Settings& settings) {
  if (!settings.has("recompute-modules")) return {"core_attn"};
  std::vector<std::string> modules;
  for (const std::string& text : settings.given("recompute-modules")) {
    std::string word;
    for (const char c : text + ",") {
      if (std::string_view("[]'\"").find(c) != std::string_view::npos) continue;
      if (c != ',' && c != ' ') {
        word += c;
        continue;
      }
      if (!word.empty()) modules.push_back(std::exchange(word, ""));
    }
  }
  return modules;
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
    options.modules = recomputed_modules(settings);
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

namespace {

/// A rule of Megatron's about these options, which run_recompute_rules.cpp and run_sequence_rules.cpp have
/// for a run of --from.
struct MemoryRule {
  const char* code;
  const char* option;
  const char* numbers;  // how a command line breaks it
  bool (*broken)(const Settings&);
  const char* rule;
  const char* hint;
};

constexpr const char* kDistribute = "distribute-saved-activations";

bool is_split(const Settings& settings) {
  return settings.number("tensor-model-parallel-size").value_or(1) > 1;
}

std::span<const MemoryRule> memory_rules() {
  static constexpr MemoryRule kRules[] = {
      {"recompute_mla", "recompute-modules", "mla_up_proj, without --multi-latent-attention",
       [](const Settings& s) {
         const MemoryOptions options = memory_options(s);
         return options.recomputes("mla_up_proj") && !s.flag("multi-latent-attention");
       },
       "mla_up_proj is a part of multi-head latent attention", "leave mla_up_proj out"},
      {"distribute_saved_full", kDistribute, "without full recomputation",
       [](const Settings& s) { return s.flag(kDistribute) && s.text("recompute-granularity", "") != "full"; },
       "kept activations are distributed under full recomputation alone", "--recompute-granularity full"},
      {"distribute_saved_tp", kDistribute, "with tp 1",
       [](const Settings& s) { return s.flag(kDistribute) && !is_split(s); },
       "kept activations are distributed over tensor-parallel ranks",
       "leave --distribute-saved-activations out"},
      {"distribute_saved_with_sp", kDistribute, "with --sequence-parallel",
       [](const Settings& s) { return s.flag(kDistribute) && is_split(s) && s.flag("sequence-parallel"); },
       "under sequence parallelism activations are distributed already",
       "leave --distribute-saved-activations out"},
      {"cp_needs_te", "context-parallel-size", "above 1, with --transformer-impl local",
       [](const Settings& s) {
         return s.number("context-parallel-size").value_or(1) > 1 && s.choice("transformer-impl") == "local";
       },
       "context parallelism needs the attention of Transformer Engine",
       "--transformer-impl transformer_engine"},
  };
  return kRules;
}

void require_recompute_modules(const Settings& settings) {
  if (settings.text("recompute-granularity", "") != "selective") return;
  for (const std::string& module : recomputed_modules(settings)) {
    if (is_recompute_module(module)) continue;
    sim::refuse({.code = "recompute_unknown_module",
                 .option = "--recompute-modules",
                 .numbers = fmt::format("'{}'", module),
                 .rule = fmt::format("the modules are {}", fmt::join(kRecomputeModules, ", ")),
                 .hint = "--recompute-modules core_attn"});
  }
}

}  // namespace

void keep_memory_refusals(const Settings& settings, sim::Refusals& refusals) {
  refusals.keep([&] { require_recompute_modules(settings); });
  for (const MemoryRule& rule : memory_rules()) {
    refusals.keep([&] {
      if (!rule.broken(settings)) return;
      sim::refuse({.code = rule.code,
                   .option = fmt::format("--{}", rule.option),
                   .numbers = rule.numbers,
                   .rule = rule.rule,
                   .hint = rule.hint});
    });
  }
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
