#include <iterator>

#include "verify/megatron_rules/run_rule.h"

namespace verify {

namespace {

constexpr const char* kDispatcher = "moe-token-dispatcher-type";
constexpr const char* kBackend = "moe-flex-dispatcher-backend";
constexpr const char* kRankCapacity = "moe-expert-rank-capacity-factor";
constexpr const char* kBalancing = "moe-router-load-balancing-type";
constexpr const char* kOverlap = "overlap-moe-expert-parallel-comm";

bool is_flex(const JudgedRun& r) { return r.is(kDispatcher, "flex"); }
std::string backend_of(const JudgedRun& r) {
  return r.flag("moe-enable-deepep") ? "deepep" : r.text(kBackend, "deepep");
}
bool pads_for_quantization(const JudgedRun& r) {
  return r.flag("moe-router-padding-for-quantization") || r.flag("moe-router-padding-for-fp8");
}
bool computes_in_8_or_4_bits(const JudgedRun& r) { return r.has("fp8-format") || r.has("fp4-format"); }

}  // namespace

/// The rules about ways to dispatch tokens, and about the sizes and kernels of experts.
std::vector<RunRule> run_expert_rules() {
  return {
      {"latent_size_not_positive",
       {"moe-latent-size"},
       [](const JudgedRun& r) {
         const auto size = r.number("moe-latent-size");
         return size && *size <= 0;
       },
       "the size that tokens are projected to for the experts is above 0",
       "leave --moe-latent-size out"},
      {"latent_without_experts",
       {"moe-latent-size", "num-experts"},
       [](const JudgedRun& r) { return r.has("moe-latent-size") && !r.has_experts(); },
       "tokens are projected for experts alone",
       "leave --moe-latent-size out"},
      {"deepep_needs_flex",
       {"moe-enable-deepep", kDispatcher},
       [](const JudgedRun& r) { return r.flag("moe-enable-deepep") && !is_flex(r); },
       "DeepEP is a backend of the dispatcher flex",
       "--moe-token-dispatcher-type flex"},
      {"flex_two_backends",
       {"moe-enable-deepep", kBackend},
       [](const JudgedRun& r) { return r.flag("moe-enable-deepep") && r.is(kBackend, "hybridep"); },
       "the dispatcher flex has one backend",
       "one of them"},
      {"deepep_pad_to_capacity",
       {"moe-pad-expert-input-to-capacity", kDispatcher, kBackend},
       [](const JudgedRun& r) {
         return is_flex(r) && r.flag("moe-pad-expert-input-to-capacity") && backend_of(r) == "deepep";
       },
       "DeepEP, the backend of flex unless given, does not pad to a capacity",
       "leave --moe-pad-expert-input-to-capacity out"},
      {"rank_capacity_backend",
       {kRankCapacity, kBackend},
       [](const JudgedRun& r) {
         return r.has(kRankCapacity) && backend_of(r) != "hybridep" && backend_of(r) != "ncclep";
       },
       "a capacity of expert ranks needs the backend hybridep or ncclep",
       "--moe-token-dispatcher-type flex --moe-flex-dispatcher-backend hybridep "
       "--use-transformer-engine-op-fuser, without --moe-enable-deepep"},
      {"rank_capacity_fuser",
       {kRankCapacity, "use-transformer-engine-op-fuser", "moe-use-grouped-tensor"},
       [](const JudgedRun& r) {
         return r.has(kRankCapacity) && backend_of(r) == "hybridep" &&
                !r.flag("use-transformer-engine-op-fuser") && !r.flag("moe-use-grouped-tensor");
       },
       "a capacity of expert ranks with hybridep needs fused operations or grouped tensors",
       "--use-transformer-engine-op-fuser"},
      {"aux_loss_list_length",
       {"moe-aux-loss-coeff", kBalancing},
       [](const JudgedRun& r) { return r.list(kBalancing).size() > 1 && !r.has("moe-aux-loss-coeff"); },
       "several ways to balance the load have a coefficient each",
       "as many coefficients as types"},
      {"quantile_groups",
       {"moe-router-num-groups", kBalancing},
       [](const JudgedRun& r) {
         return r.is(kBalancing, "quantile_balancing") &&
                (r.has("moe-router-num-groups") || r.has("moe-router-group-topk"));
       },
       "balancing by quantiles chooses among all experts, and not among those of some groups",
       "leave --moe-router-num-groups and --moe-router-group-topk out"},
      {"quantile_fusion",
       {"moe-router-fusion", kBalancing},
       [](const JudgedRun& r) {
         return r.is(kBalancing, "quantile_balancing") && r.flag("moe-router-fusion");
       },
       "balancing by quantiles has no fused router",
       "leave --moe-router-fusion out"},
      {"router_padding_needs_fp8",
       {"moe-router-padding-for-quantization", "fp8-format"},
       [](const JudgedRun& r) { return pads_for_quantization(r) && !computes_in_8_or_4_bits(r); },
       "tokens are padded for products in 8 or 4 bits",
       "--fp8-format hybrid"},
      {"router_padding_dispatcher",
       {"moe-router-padding-for-quantization", kDispatcher},
       [](const JudgedRun& r) {
         return pads_for_quantization(r) && r.derived_text("moe_token_dispatcher_type") == "allgather";
       },
       "the dispatcher allgather does not pad tokens for products in 8 or 4 bits",
       "--moe-token-dispatcher-type alltoall"},
      {"grouped_tensor_needs_grouped_gemm",
       {"moe-use-grouped-tensor", "moe-grouped-gemm"},
       [](const JudgedRun& r) { return r.flag("moe-use-grouped-tensor") && !r.flag("moe-grouped-gemm"); },
       "grouped tensors need grouped products",
       "--moe-grouped-gemm"},
      {"single_grouped",
       {"moe-single-grouped-weight", "moe-single-grouped-bias", "moe-grouped-gemm", "moe-use-grouped-tensor"},
       [](const JudgedRun& r) {
         return (r.flag("moe-single-grouped-weight") || r.flag("moe-single-grouped-bias")) &&
                !(r.flag("moe-grouped-gemm") && r.flag("moe-use-grouped-tensor"));
       },
       "one weight or bias for all experts of a rank needs grouped products and grouped tensors",
       "--moe-grouped-gemm --moe-use-grouped-tensor"},
      {"single_grouped",
       {"moe-single-grouped-bias", "disable-bias-linear"},
       [](const JudgedRun& r) {
         return r.flag("moe-single-grouped-bias") && !r.derived_flag("add_bias_linear");
       },
       "one bias for all experts of a rank needs linear layers with a bias",
       "leave --moe-single-grouped-bias out"},
      {"ep_overlap_recompute_moe",
       {kOverlap, "recompute-modules"},
       [](const JudgedRun& r) { return r.flag(kOverlap) && r.recomputes("moe"); },
       "the overlap of the experts' communication goes without recomputed experts",
       "leave moe out of --recompute-modules, and --moe-layer-recompute out"},
      {"ep_overlap_dtype",
       {kOverlap, "bf16", "fp16"},
       [](const JudgedRun& r) { return r.flag(kOverlap) && !r.flag("bf16") && !r.flag("fp16"); },
       "the overlap of the experts' communication needs parameters in bf16 or fp16",
       "--bf16"},
      {"delay_wgrad_needs_te",
       {"delay-wgrad-compute", "transformer-impl"},
       [](const JudgedRun& r) {
         return r.flag("delay-wgrad-compute") &&
                r.text("transformer-impl", "transformer_engine") != "transformer_engine";
       },
       "delayed weight gradients need the implementation of Transformer Engine",
       "--transformer-impl transformer_engine"},
      {"delay_wgrad_needs_overlap",
       {"delay-wgrad-compute", kOverlap},
       [](const JudgedRun& r) { return r.flag("delay-wgrad-compute") && !r.flag(kOverlap); },
       "weight gradients are delayed where the experts' communication overlaps",
       "--overlap-moe-expert-parallel-comm, or leave --delay-wgrad-compute out"},
      {"dispatch_backward_overlap",
       {"overlap-dispatch-backward-with-experts-wgrad", kOverlap, "delay-wgrad-compute"},
       [](const JudgedRun& r) {
         return r.flag("overlap-dispatch-backward-with-experts-wgrad") &&
                (r.flag(kOverlap) || r.flag("delay-wgrad-compute"));
       },
       "the backward pass of the dispatch overlaps with weight gradients, or with other microbatches",
       "one of them"},
      {"early_release_needs_overlap",
       {"ep-overlap-early-attn-memory-release", kOverlap},
       [](const JudgedRun& r) { return r.flag("ep-overlap-early-attn-memory-release") && !r.flag(kOverlap); },
       "memory of attention is released early where the experts' communication overlaps",
       "--overlap-moe-expert-parallel-comm, or leave --ep-overlap-early-attn-memory-release out"},
      {"ncclep_needs_flex",
       {kBackend, kDispatcher},
       [](const JudgedRun& r) { return r.is(kBackend, "ncclep") && !is_flex(r); },
       "ncclep is a backend of the dispatcher flex",
       "--moe-token-dispatcher-type flex"},
      {"paged_stash_needs_capacity",
       {"moe-paged-stash", kRankCapacity},
       [](const JudgedRun& r) { return r.flag("moe-paged-stash") && !r.has(kRankCapacity); },
       "activations of experts are kept in pages where ranks of experts have a capacity",
       "leave --moe-paged-stash out"},
      {"upcycling_save",
       {"moe-use-upcycling", "save"},
       [](const JudgedRun& r) { return r.flag("moe-use-upcycling") && !r.has("save"); },
       "a dense model that becomes one with experts is saved",
       "--save"},
  };
}

}  // namespace verify
