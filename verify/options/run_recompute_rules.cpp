#include <algorithm>

#include "verify/options/memory_options.h"
#include "verify/options/run_rule.h"

namespace verify {

namespace {

constexpr const char* kGranularity = "recompute-granularity";
constexpr const char* kModules = "recompute-modules";
constexpr const char* kDistribute = "distribute-saved-activations";
constexpr const char* kOffload = "cpu-offloading-num-layers";

/// The granularity as the modules are checked: --moe-layer-recompute sets it only afterwards.
std::string granularity_of(const JudgedRun& r) {
  return r.flag("recompute-activations") ? "selective" : r.text(kGranularity);
}
bool selects(const JudgedRun& r, std::string_view module) {
  return granularity_of(r) == "selective" && r.lists(kModules, module);
}

bool has_unknown_module(const JudgedRun& r) {
  const std::vector<std::string> modules = r.list(kModules);
  return granularity_of(r) == "selective" &&
         !std::all_of(modules.begin(), modules.end(), is_recompute_module);
}

bool offloads(const JudgedRun& r) { return r.number(kOffload, 0) > 0; }

}  // namespace

/// The rules about activations that are computed again, distributed, or kept on the host.
std::vector<RunRule> run_recompute_rules() {
  return {
      {"distribute_saved_tp",
       {kDistribute, "tensor-model-parallel-size"},
       [](const JudgedRun& r) { return r.flag(kDistribute) && r.tp() == std::int64_t{1}; },
       "kept activations are distributed over tensor-parallel ranks",
       "leave --distribute-saved-activations out"},
      {"distribute_saved_full",
       {kDistribute, kGranularity},
       [](const JudgedRun& r) { return r.flag(kDistribute) && granularity_of(r) != "full"; },
       "kept activations are distributed under full recomputation alone",
       "--recompute-granularity full"},
      {"distribute_saved_method",
       {kDistribute, "recompute-method"},
       [](const JudgedRun& r) { return r.flag(kDistribute) && !r.has("recompute-method"); },
       "kept activations are distributed under a method of recomputation",
       "--recompute-granularity full --recompute-method uniform"},
      {"distribute_saved_with_sp",
       {kDistribute, "sequence-parallel"},
       [](const JudgedRun& r) { return r.flag(kDistribute) && r.derived_flag("sequence_parallel"); },
       "under sequence parallelism activations are distributed already",
       "leave --distribute-saved-activations out"},
      {"recompute_unknown_module",
       {kModules},
       has_unknown_module,
       "recomputed modules are core_attn, moe_act, layernorm, mla_up_proj, mlp, moe, shared_experts, mhc, "
       "gdn_norm_out, gdp_in_proj and gdp_qkv",
       "--recompute-modules core_attn"},
      {"recompute_moe_act",
       {kModules, "moe-grouped-gemm"},
       [](const JudgedRun& r) { return selects(r, "moe_act") && !r.flag("moe-grouped-gemm"); },
       "the activation of experts is recomputed with grouped products",
       "--moe-grouped-gemm"},
      {"recompute_mla",
       {kModules, "multi-latent-attention"},
       [](const JudgedRun& r) { return selects(r, "mla_up_proj") && !r.flag("multi-latent-attention"); },
       "mla_up_proj is a part of multi-head latent attention",
       "leave mla_up_proj out"},
      {"recompute_gdn",
       {kModules, "experimental-attention-variant"},
       [](const JudgedRun& r) { return selects(r, "gdn_norm_out") && !r.is_gated_delta_net(); },
       "gdn_norm_out is a part of a gated delta net",
       "leave gdn_norm_out out"},
      {"recompute_shared_overlap",
       {kModules, "moe-shared-expert-overlap"},
       [](const JudgedRun& r) {
         return selects(r, "shared_experts") && r.has("moe-shared-expert-intermediate-size") &&
                r.flag("moe-shared-expert-overlap");
       },
       "shared experts whose communication overlaps are not recomputed",
       "leave one of them out"},
      {"recompute_mhc",
       {kModules, "enable-mhc-connections"},
       [](const JudgedRun& r) { return selects(r, "mhc") && !r.flag("enable-mhc-connections"); },
       "mhc stands for hyper connections",
       "--enable-mhc-connections"},
      {"recompute_mhc_mlp",
       {kModules},
       [](const JudgedRun& r) { return selects(r, "mhc") && selects(r, "mlp"); },
       "hyper connections and the MLP are not both recomputed",
       "one of mhc and mlp"},
      {"recompute_fp8_delayed",
       {kModules, "fp8-recipe"},
       [](const JudgedRun& r) {
         return r.has("fp8-format") && r.text("fp8-recipe", "delayed") == "delayed" &&
                (selects(r, "moe_act") || selects(r, "layernorm"));
       },
       "delayed scaling, the recipe unless given, goes without recomputed moe_act and layernorm",
       "--fp8-recipe tensorwise"},
      {"moe_layer_recompute_full",
       {"moe-layer-recompute", kGranularity},
       [](const JudgedRun& r) { return r.flag("moe-layer-recompute") && granularity_of(r) == "full"; },
       "under full recomputation experts are recomputed already",
       "leave --moe-layer-recompute out"},
      {"cpu_offload_layers",
       {kOffload},
       [](const JudgedRun& r) { return offloads(r) && r.layers() && *r.number(kOffload) >= *r.layers(); },
       "fewer layers than there are keep their activations on the host",
       "a smaller number",
       {"num_layers"}},
      {"cpu_offload_pp",
       {kOffload, "pipeline-model-parallel-size"},
       [](const JudgedRun& r) { return offloads(r) && JudgedRun::above(r.pp(), 1); },
       "activations are kept on the host without pipeline parallelism alone",
       "leave --cpu-offloading-num-layers out"},
      {"cpu_offload_recompute",
       {kOffload, kGranularity},
       [](const JudgedRun& r) { return offloads(r) && !granularity_of(r).empty(); },
       "activations are kept on the host, or computed again",
       "one of them"},
  };
}

}  // namespace verify
