#include "verify/megatron_rules/run_rule.h"

namespace verify {

namespace {

constexpr const char* kDistributedOptimizer = "use-distributed-optimizer";
constexpr const char* kGather = "overlap-param-gather";
constexpr const char* kGatherStep = "overlap-param-gather-with-optimizer-step";
constexpr const char* kCheckpointFormat = "ckpt-format";
constexpr const char* kReuse = "reuse-grad-buf-for-mxfp8-param-ag";
constexpr const char* kPrecisionAware = "use-precision-aware-optimizer";

bool is_emerging(const JudgedRun& r) { return r.optimizer() != "adam" && r.optimizer() != "sgd"; }

}  // namespace

/// The rules about the optimizer, its buckets and its checkpoints.
std::vector<RunRule> run_optimizer_rules() {
  return {
      {"param_gather_needs_distopt",
       {kGather, kDistributedOptimizer},
       [](const JudgedRun& r) {
         return r.flag(kGather) && !r.flag(kDistributedOptimizer) && !r.flag("use-megatron-fsdp") &&
                r.optimizer() != "dist_muon";
       },
       "parameters are gathered by the distributed optimizer, Megatron-FSDP or dist_muon",
       "--use-distributed-optimizer"},
      {"param_gather_needs_grad_reduce",
       {kGather, "overlap-grad-reduce"},
       [](const JudgedRun& r) { return r.flag(kGather) && !r.flag("overlap-grad-reduce"); },
       "the gathering of parameters overlaps where the reduction of gradients does",
       "--overlap-grad-reduce"},
      {"gather_step_needs_distopt",
       {kGatherStep, kDistributedOptimizer},
       [](const JudgedRun& r) { return r.flag(kGatherStep) && !r.flag(kDistributedOptimizer); },
       "parameters are gathered beside a step of the distributed optimizer",
       "--use-distributed-optimizer"},
      {"gather_step_needs_param_gather",
       {kGatherStep, kGather},
       [](const JudgedRun& r) { return r.flag(kGatherStep) && !r.flag(kGather); },
       "parameters are gathered beside the optimizer's step where their gathering overlaps",
       "--overlap-param-gather"},
      {"gather_step_needs_vpp",
       {kGatherStep},
       [](const JudgedRun& r) { return r.flag(kGatherStep) && r.is_absent("vpp"); },
       "parameters are gathered beside the optimizer's step in an interleaved schedule",
       "--num-virtual-stages-per-pipeline-rank 2",
       {"vpp"}},
      {"gather_step_dist_ckpt",
       {kGatherStep, kCheckpointFormat},
       [](const JudgedRun& r) { return r.flag(kGatherStep) && r.checkpoint_format() != "torch"; },
       "parameters that are gathered beside the optimizer's step are saved in the format torch",
       "--ckpt-format torch"},
      {"emerging_opt_fsdp",
       {"optimizer", "use-torch-fsdp2"},
       [](const JudgedRun& r) { return is_emerging(r) && r.flag("use-torch-fsdp2"); },
       "fully sharded data parallelism has the optimizers adam and sgd",
       "--optimizer adam"},
      {"emerging_opt_ckpt",
       {"optimizer", kCheckpointFormat},
       [](const JudgedRun& r) {
         return is_emerging(r) && r.checkpoint_format() != "torch" && r.checkpoint_format() != "torch_dist";
       },
       "an optimizer other than adam and sgd is saved in the formats torch and torch_dist",
       "--ckpt-format torch_dist"},
      {"no_gloo_ckpt_format",
       {"disable-gloo-process-groups", kCheckpointFormat},
       [](const JudgedRun& r) {
         return r.flag("disable-gloo-process-groups") && r.flag(kDistributedOptimizer) &&
                r.checkpoint_format() == "torch";
       },
       "the distributed optimizer is saved in the format torch through groups of Gloo",
       "--ckpt-format torch_dist"},
      {"no_gloo_mem_efficient",
       {"disable-gloo-process-groups", "dist-ckpt-optim-fully-reshardable",
        "distrib-optim-fully-reshardable-mem-efficient"},
       [](const JudgedRun& r) {
         return r.flag("disable-gloo-process-groups") && r.flag(kDistributedOptimizer) &&
                r.flag("dist-ckpt-optim-fully-reshardable") &&
                r.flag("distrib-optim-fully-reshardable-mem-efficient");
       },
       "the optimizer is saved with less memory through groups of Gloo",
       "leave --disable-gloo-process-groups out"},
      {"precision_aware_adam",
       {kPrecisionAware, "optimizer"},
       [](const JudgedRun& r) { return r.flag(kPrecisionAware) && r.optimizer() != "adam"; },
       "the optimizer that knows of precision is Adam",
       "--optimizer adam"},
      {"cpu_offload_needs_precision_aware",
       {"optimizer-cpu-offload", kPrecisionAware},
       [](const JudgedRun& r) { return r.flag("optimizer-cpu-offload") && !r.flag(kPrecisionAware); },
       "an optimizer on the host is one that knows of precision",
       "--use-precision-aware-optimizer --use-distributed-optimizer"},
      {"precision_aware_distributed",
       {kPrecisionAware, kDistributedOptimizer},
       [](const JudgedRun& r) {
         return r.flag(kPrecisionAware) && r.optimizer() == "adam" &&
                !r.derived_flag("use_distributed_optimizer");
       },
       "the optimizer that knows of precision is distributed",
       "--use-distributed-optimizer"},
      {"cpu_offload_fp8_params",
       {"optimizer-cpu-offload", "fp8-param-gather", "fp8-recipe"},
       [](const JudgedRun& r) {
         return r.flag("optimizer-cpu-offload") && r.flag("fp8-param-gather") &&
                r.text("fp8-recipe", "delayed") != "delayed";
       },
       "an optimizer on the host goes with parameters in 8 bits of delayed scaling alone",
       "--fp8-recipe delayed, or leave --fp8-param-gather out"},
      {"reuse_grad_buffer",
       {kReuse, "fp8-param-gather"},
       [](const JudgedRun& r) {
         return r.flag(kReuse) && !r.flag("fp8-param-gather") && !r.flag("use-megatron-fsdp");
       },
       "parameters are gathered into the buffer of gradients where they are kept in 8 bits",
       "--fp8-format e4m3 --fp8-recipe mxfp8 --fp8-param-gather, or leave "
       "--reuse-grad-buf-for-mxfp8-param-ag out"},
      {"reuse_grad_buffer_gather_step",
       {kReuse, kGatherStep},
       [](const JudgedRun& r) { return r.flag(kReuse) && r.flag(kGatherStep); },
       "parameters are gathered into the buffer of gradients, or beside the optimizer's step",
       "one of them"},
      {"load_main_params",
       {"load-main-params-from-ckpt", "no-load-optim"},
       [](const JudgedRun& r) { return r.flag("load-main-params-from-ckpt") && !r.flag("no-load-optim"); },
       "main parameters are made of a checkpoint's parameters where the optimizer is not loaded",
       "--no-load-optim"},
      {"ddp_buckets_and_size",
       {"ddp-num-buckets", "ddp-bucket-size"},
       [](const JudgedRun& r) { return r.has("ddp-num-buckets") && r.has("ddp-bucket-size"); },
       "the buckets of gradients have a number or a size",
       "one of them"},
      {"ddp_buckets_not_positive",
       {"ddp-num-buckets"},
       [](const JudgedRun& r) {
         const auto buckets = r.number("ddp-num-buckets");
         return buckets && *buckets <= 0;
       },
       "there is at least one bucket of gradients",
       "leave --ddp-num-buckets out"},
      {"ddp_patterns",
       {"ddp-param-name-patterns-for-fp32-local-accumulation", "grad-reduce-in-bf16"},
       [](const JudgedRun& r) {
         return !r.list("ddp-param-name-patterns-for-fp32-local-accumulation").empty() &&
                r.derived_flag("ddp_grad_reduce_in_fp32");
       },
       "parameters whose gradients gather in fp32 are named where gradients are not reduced in fp32",
       "--grad-reduce-in-bf16"},
  };
}

}  // namespace verify
