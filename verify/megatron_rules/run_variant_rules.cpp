#include <algorithm>

#include "verify/megatron_rules/run_rule.h"

namespace verify {

namespace {

constexpr const char* kImplementation = "transformer-impl";
constexpr const char* kVariant = "experimental-attention-variant";

bool is_gdn_size_missing(const JudgedRun& r) {
  const auto sizes = {"linear-conv-kernel-dim", "linear-key-head-dim", "linear-value-head-dim",
                      "linear-num-key-heads", "linear-num-value-heads"};
  return r.is_gated_delta_net() &&
         std::any_of(sizes.begin(), sizes.end(), [&](const char* one) { return !r.has(one); });
}

bool are_gdn_heads_undivided(const JudgedRun& r, const char* heads) {
  return r.is_gated_delta_net() && is_undivided(r.number(heads), product_of({r.tp(), r.cp()}));
}

bool is_for_inference(const JudgedRun& r) { return r.is(kImplementation, "inference_optimized"); }

}  // namespace

/// The rules about variants of attention, of the implementation and of the residual connections.
std::vector<RunRule> run_variant_rules() {
  return {
      {"rope_type_needs_mla",
       {"rope-type", "multi-latent-attention"},
       [](const JudgedRun& r) {
         return r.text("rope-type", "rope") != "rope" && !r.flag("multi-latent-attention");
       },
       "rotary positions of another type than rope need multi-head latent attention",
       "--rope-type rope"},
      {"mla_with_gqa",
       {"multi-latent-attention", "group-query-attention"},
       [](const JudgedRun& r) { return r.flag("multi-latent-attention") && r.flag("group-query-attention"); },
       "multi-head latent attention has no groups of queries",
       "leave --group-query-attention out"},
      {"mla_rotary_interleaved",
       {"multi-latent-attention", "rotary-interleaved"},
       [](const JudgedRun& r) { return r.flag("multi-latent-attention") && r.flag("rotary-interleaved"); },
       "multi-head latent attention has no interleaved rotary positions",
       "leave --rotary-interleaved out"},
      {"mla_rope_fusion",
       {"multi-latent-attention", "rope-type", "no-rope-fusion"},
       [](const JudgedRun& r) {
         return r.flag("multi-latent-attention") && r.derived_flag("apply_rope_fusion") &&
                r.text("rope-type", "yarn") != "yarn";
       },
       "the rotary positions of multi-head latent attention are fused with the type yarn alone",
       "--no-rope-fusion"},
      {"mla_output_gate",
       {"attention-output-gate", "multi-latent-attention"},
       [](const JudgedRun& r) { return r.flag("attention-output-gate") && r.flag("multi-latent-attention"); },
       "multi-head latent attention has no gate on its output",
       "leave --attention-output-gate out"},
      {"mla_cached_latents",
       {"cache-mla-latents", "no-rope-fusion"},
       [](const JudgedRun& r) {
         return r.flag("cache-mla-latents") && r.flag("multi-latent-attention") &&
                r.derived_flag("apply_rope_fusion");
       },
       "latents are cached where rotary positions are not fused",
       "--no-rope-fusion"},
      {"mla_down_projection",
       {"mla-down-proj-fusion", "multi-latent-attention"},
       [](const JudgedRun& r) { return r.flag("mla-down-proj-fusion") && !r.flag("multi-latent-attention"); },
       "projections to latents are those of multi-head latent attention",
       "leave --mla-down-proj-fusion out"},
      {"dsa_rope_fusion",
       {kVariant, "no-rope-fusion"},
       [](const JudgedRun& r) { return r.is(kVariant, "dsa") && r.derived_flag("apply_rope_fusion"); },
       "sparse attention (dsa) goes without fused rotary positions",
       "--no-rope-fusion"},
      {"dsa_bias",
       {kVariant, "disable-bias-linear"},
       [](const JudgedRun& r) { return r.is(kVariant, "dsa") && !r.flag("disable-bias-linear"); },
       "sparse attention (dsa) has linear layers without a bias",
       "--disable-bias-linear"},
      {"dsa_context_parallel",
       {kVariant, "context-parallel-size", "cp-comm-type"},
       [](const JudgedRun& r) {
         const auto kinds = r.list("cp-comm-type");
         return r.is(kVariant, "dsa") && JudgedRun::above(r.cp(), 1) &&
                (kinds.empty() || !std::ranges::all_of(kinds, gathers_tokens));
       },
       "sparse attention (dsa) gathers the tokens of context-parallel ranks",
       "--cp-comm-type all_gather"},
      {"qk_clip",
       {"qk-clip", "qk-clip-alpha", "qk-clip-threshold"},
       [](const JudgedRun& r) {
         const double alpha = r.decimal("qk-clip-alpha").value_or(0.5);
         return r.flag("qk-clip") &&
                (!(alpha > 0 && alpha < 1) || r.decimal("qk-clip-threshold").value_or(100) <= 0);
       },
       "queries and keys are clipped at a threshold above 0, by a power between 0 and 1",
       "--qk-clip-alpha 0.5"},
      {"gdn_freq",
       {"experimental-attention-variant", "linear-attention-freq"},
       [](const JudgedRun& r) { return r.is_gated_delta_net() && !r.has("linear-attention-freq"); },
       "a gated delta net needs the frequency of its layers",
       "--linear-attention-freq 4"},
      {"gdn_sizes",
       {"experimental-attention-variant", "linear-conv-kernel-dim", "linear-key-head-dim",
        "linear-value-head-dim", "linear-num-key-heads", "linear-num-value-heads"},
       is_gdn_size_missing,
       "a gated delta net needs the size of its convolution, and the sizes and numbers of its heads",
       "the sizes that are not given"},
      {"gdn_value_key_heads",
       {"linear-num-value-heads", "linear-num-key-heads"},
       [](const JudgedRun& r) {
         return r.is_gated_delta_net() &&
                is_undivided(r.number("linear-num-value-heads"), r.number("linear-num-key-heads"));
       },
       "the value heads of a gated delta net are a multiple of its key heads",
       "--linear-num-value-heads of such a multiple"},
      {"gdn_key_heads_tp_cp",
       {"linear-num-key-heads"},
       [](const JudgedRun& r) { return are_gdn_heads_undivided(r, "linear-num-key-heads"); },
       "the key heads of a gated delta net are a multiple of tp * cp",
       "--linear-num-key-heads of such a multiple",
       {"tp", "cp"}},
      {"gdn_value_heads_tp_cp",
       {"linear-num-value-heads"},
       [](const JudgedRun& r) { return are_gdn_heads_undivided(r, "linear-num-value-heads"); },
       "the value heads of a gated delta net are a multiple of tp * cp",
       "--linear-num-value-heads of such a multiple",
       {"tp", "cp"}},
      {"local_backend_spec",
       {"attention-backend", "spec"},
       [](const JudgedRun& r) { return r.is("attention-backend", "local") && !r.is("spec", "local"); },
       "the local attention needs the local specification of a layer",
       "--spec local"},
      {"inference_impl_needs_rmsnorm",
       {kImplementation, "normalization"},
       [](const JudgedRun& r) { return is_for_inference(r) && !r.is("normalization", "RMSNorm"); },
       "the implementation for inference normalizes by RMSNorm",
       "--normalization RMSNorm"},
      {"inference_impl_layernorm_1p",
       {kImplementation, "apply-layernorm-1p"},
       [](const JudgedRun& r) { return is_for_inference(r) && r.flag("apply-layernorm-1p"); },
       "the implementation for inference has no normalization weights around zero",
       "leave --apply-layernorm-1p out"},
      {"inference_impl_bias",
       {kImplementation, "disable-bias-linear"},
       [](const JudgedRun& r) { return is_for_inference(r) && !r.flag("disable-bias-linear"); },
       "the implementation for inference has linear layers without a bias",
       "--disable-bias-linear"},
      {"inference_impl_qkv_bias",
       {kImplementation, "add-qkv-bias"},
       [](const JudgedRun& r) { return is_for_inference(r) && r.flag("add-qkv-bias"); },
       "the implementation for inference has queries, keys and values without a bias",
       "leave --add-qkv-bias out"},
      {"inference_moe_etp",
       {kImplementation, "expert-tensor-parallel-size"},
       [](const JudgedRun& r) {
         return is_for_inference(r) && r.has_experts() && JudgedRun::above(r.derived("etp"), 1);
       },
       "the implementation for inference does not cut experts over tensor-parallel ranks",
       "--expert-tensor-parallel-size 1",
       {"etp"}},
      {"inference_moe_capacity",
       {kImplementation, "moe-expert-capacity-factor"},
       [](const JudgedRun& r) {
         return is_for_inference(r) && r.has_experts() && r.has("moe-expert-capacity-factor");
       },
       "the implementation for inference drops no tokens",
       "leave --moe-expert-capacity-factor out"},
      {"inference_moe_router_dtype",
       {kImplementation, "moe-router-dtype"},
       [](const JudgedRun& r) {
         return is_for_inference(r) && r.has_experts() && !r.is("moe-router-dtype", "fp32");
       },
       "the implementation for inference routes in fp32",
       "--moe-router-dtype fp32"},
      {"mup_base",
       {"mup-base-hidden-size", "use-mup"},
       [](const JudgedRun& r) {
         const auto base = r.number("mup-base-hidden-size");
         return r.flag("use-mup") && base && *base <= 0;
       },
       "the hidden size that others are scaled from is above 0",
       "leave --mup-base-hidden-size out"},
      {"mhc_pp",
       {"enable-mhc-connections", "pipeline-model-parallel-size"},
       [](const JudgedRun& r) { return r.flag("enable-mhc-connections") && JudgedRun::above(r.pp(), 1); },
       "hyper connections go without pipeline parallelism",
       "--pipeline-model-parallel-size 1"},
      {"mhc_full_recompute",
       {"enable-mhc-connections", "recompute-granularity"},
       [](const JudgedRun& r) {
         return r.flag("enable-mhc-connections") && r.derived_text("recompute_granularity") == "full";
       },
       "hyper connections go without full recomputation",
       "--recompute-granularity selective --recompute-modules mhc"},
      {"mhc_fp32_residual",
       {"enable-mhc-connections", "fp32-residual-connection"},
       [](const JudgedRun& r) {
         return r.flag("enable-mhc-connections") && r.flag("fp32-residual-connection");
       },
       "hyper connections go without residual connections in fp32",
       "leave --fp32-residual-connection out"},
      {"mhc_mtp",
       {"enable-mhc-connections", "mtp-num-layers"},
       [](const JudgedRun& r) {
         return r.flag("enable-mhc-connections") && JudgedRun::above(r.derived("mtp_num_layers"), 0);
       },
       "hyper connections go without multi-token prediction",
       "leave --mtp-num-layers out"},
  };
}

}  // namespace verify
