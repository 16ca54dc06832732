#include <algorithm>
#include <iterator>

#include "verify/megatron_rules/run_rule.h"
#include "verify/vocabulary/recompute_modules.h"

namespace verify {

namespace {

constexpr const char* kGranularity = "recompute-granularity";
constexpr const char* kModules = "recompute-modules";
constexpr const char* kDistributeSaved = "distribute-saved-activations";
constexpr const char* kOffload = "cpu-offloading-num-layers";
constexpr const char* kFineOffload = "fine-grained-activation-offloading";
constexpr const char* kOffloaded = "offload-modules";

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

/// Whether activations of some modules are kept on the host (--fine-grained-activation-offloading).
bool offloads_modules(const JudgedRun& r) { return r.flag(kFineOffload); }

bool has_unknown_offload(const JudgedRun& r) {
  static constexpr std::string_view kKnown[] = {"core_attn", "attn_proj", "expert_fc1", "fused_group_mlp",
                                                "moe_act",   "attn_norm", "mlp_norm",   "qkv_linear"};
  return offloads_modules(r) && std::ranges::any_of(r.list(kOffloaded), [](const std::string& one) {
           return std::ranges::find(kKnown, one) == std::end(kKnown);
         });
}

bool is_part_of_experts(const std::string& module) {
  return module == "expert_fc1" || module == "moe_act" || module == "fused_group_mlp";
}

/// Whether parts of the experts are kept on the host.
bool offloads_experts(const JudgedRun& r) {
  return offloads_modules(r) && std::ranges::any_of(r.list(kOffloaded), is_part_of_experts);
}

bool offloads_nothing_else(const JudgedRun& r) {
  return std::ranges::all_of(r.list(kOffloaded), is_part_of_experts);
}

bool offloads(const JudgedRun& r) { return r.number(kOffload, 0) > 0; }

}  // namespace

/// The rules about activations that are computed again, distributed, or kept on the host.
std::vector<RunRule> run_recompute_rules() {
  return {
      {"distribute_saved_tp",
       {kDistributeSaved, "tensor-model-parallel-size"},
       [](const JudgedRun& r) { return r.flag(kDistributeSaved) && r.tp() == std::int64_t{1}; },
       "kept activations are distributed over tensor-parallel ranks",
       "leave --distribute-saved-activations out"},
      {"distribute_saved_full",
       {kDistributeSaved, kGranularity},
       [](const JudgedRun& r) { return r.flag(kDistributeSaved) && granularity_of(r) != "full"; },
       "kept activations are distributed under full recomputation alone",
       "--recompute-granularity full"},
      {"distribute_saved_method",
       {kDistributeSaved, "recompute-method"},
       [](const JudgedRun& r) { return r.flag(kDistributeSaved) && !r.has("recompute-method"); },
       "kept activations are distributed under a method of recomputation",
       "--recompute-granularity full --recompute-method uniform"},
      {"distribute_saved_with_sp",
       {kDistributeSaved, "sequence-parallel"},
       [](const JudgedRun& r) { return r.flag(kDistributeSaved) && r.derived_flag("sequence_parallel"); },
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
      {"offload_needs_te",
       {kFineOffload, "transformer-impl"},
       [](const JudgedRun& r) {
         return offloads_modules(r) &&
                r.text("transformer-impl", "transformer_engine") != "transformer_engine";
       },
       "activations of modules are kept on the host by the implementation of Transformer Engine",
       "--transformer-impl transformer_engine"},
      {"offload_with_layers",
       {kFineOffload, kOffload},
       [](const JudgedRun& r) { return offloads_modules(r) && offloads(r); },
       "activations of modules or of layers are kept on the host",
       "one of them"},
      {"offload_without_modules",
       {kFineOffload, kOffloaded},
       [](const JudgedRun& r) { return offloads_modules(r) && r.list(kOffloaded).empty(); },
       "the modules whose activations are kept on the host are named",
       "--offload-modules core_attn attn_proj"},
      {"offload_unknown_module",
       {kOffloaded},
       has_unknown_offload,
       "modules whose activations are kept on the host are attn_norm, qkv_linear, core_attn, attn_proj, "
       "mlp_norm, expert_fc1, moe_act and fused_group_mlp",
       "--offload-modules core_attn attn_proj"},
      {"offload_attn_proj",
       {kOffloaded},
       [](const JudgedRun& r) {
         return offloads_modules(r) && r.lists(kOffloaded, "attn_proj") && !r.lists(kOffloaded, "core_attn");
       },
       "the input of attn_proj is the output of core_attn, whose backward pass needs it as well",
       "--offload-modules core_attn attn_proj"},
      {"offload_recomputed_experts",
       {kOffloaded, kModules},
       [](const JudgedRun& r) {
         return offloads_experts(r) && r.derived_text("recompute_granularity") == "selective" &&
                r.recomputes("moe");
       },
       "parts of experts that are computed again are not kept on the host",
       "leave moe out of --recompute-modules, and --moe-layer-recompute out"},
      {"offload_fused_experts",
       {kOffloaded, "use-transformer-engine-op-fuser"},
       [](const JudgedRun& r) {
         return offloads_modules(r) && r.lists(kOffloaded, "fused_group_mlp") &&
                (!r.flag("use-transformer-engine-op-fuser") || r.lists(kOffloaded, "expert_fc1") ||
                 r.lists(kOffloaded, "moe_act"));
       },
       "fused_group_mlp is all of the fused experts: without expert_fc1 and moe_act, and with fused "
       "operations",
       "--use-transformer-engine-op-fuser, and leave expert_fc1 and moe_act out"},
      {"offload_graph_moe",
       {kFineOffload, "cuda-graph-modules"},
       [](const JudgedRun& r) {
         return offloads_modules(r) && has_layer_graphs(r) && captures_module(r, "moe");
       },
       "activations of modules are kept on the host without graphs of whole expert layers",
       "leave moe out of --cuda-graph-modules"},
      {"offload_local_graph",
       {kFineOffload, "cuda-graph-impl", kOffloaded},
       [](const JudgedRun& r) {
         return offloads_modules(r) && r.derived_text("cuda_graph_impl") == "local" &&
                !(offloads_experts(r) && offloads_nothing_else(r) && !captured_modules(r).empty());
       },
       "beside local graphs of some modules, only expert_fc1, moe_act and fused_group_mlp are kept on the "
       "host",
       "--cuda-graph-impl transformer_engine"},
  };
}

}  // namespace verify
