#include "verify/megatron_rules/run_rule.h"

namespace verify {

namespace {

constexpr const char* kWeightShards = "tensor-parallel-num-weight-shards";
constexpr const char* kExpertShards = "expert-tensor-parallel-num-weight-shards";
constexpr const char* kInstances = "num-distributed-optimizer-instances";

bool are_fewer_shards(const JudgedRun& r, const char* shards, const char* ranks) {
  const auto given = r.number(shards), least = r.derived(ranks);
  return given && least && *given < *least;
}

bool are_broken_shards(const JudgedRun& r, const char* shards, const char* ranks) {
  return !are_fewer_shards(r, shards, ranks) && is_undivided(r.number(shards), r.derived(ranks));
}

bool has_shared_format(const JudgedRun& r) {
  return r.checkpoint_format() == "torch" || r.checkpoint_format() == "torch_dist";
}

}  // namespace

/// The rules about the ranks: weights that more ranks share than tensor parallelism has, groups of the
/// network, and groups that follow the length of a sample.
std::vector<RunRule> run_grid_rules() {
  return {
      {"weight_shards_below_tp",
       {kWeightShards, "tensor-model-parallel-size"},
       [](const JudgedRun& r) { return are_fewer_shards(r, kWeightShards, "tp"); },
       "weights have at least as many shards as tensor parallelism has ranks",
       "as many shards as tp, or leave it out"},
      {"weight_shards_below_tp",
       {kExpertShards, "expert-tensor-parallel-size"},
       [](const JudgedRun& r) { return are_fewer_shards(r, kExpertShards, "etp"); },
       "the weights of experts have at least as many shards as expert tensor parallelism has ranks",
       "as many shards as etp, or leave it out",
       {"etp"}},
      {"weight_shards_not_multiple",
       {kWeightShards, "tensor-model-parallel-size"},
       [](const JudgedRun& r) { return are_broken_shards(r, kWeightShards, "tp"); },
       "the shards of weights are a multiple of tp",
       "a multiple of tp"},
      {"weight_shards_not_multiple",
       {kExpertShards, "expert-tensor-parallel-size"},
       [](const JudgedRun& r) { return are_broken_shards(r, kExpertShards, "etp"); },
       "the shards of the weights of experts are a multiple of etp",
       "a multiple of etp",
       {"etp"}},
      {"world_not_divisible",
       {kWeightShards},
       [](const JudgedRun& r) {
         return r.shares_weights() &&
                is_undivided(r.world(), product_of({r.tp(), r.pp(), r.cp(), r.derived("gtp")}));
       },
       "the ranks are a multiple of tp * pp * cp * the ranks that share weights beyond tp",
       "another world size",
       {"tp", "pp", "cp", "gtp"}},
      {"expert_world_not_divisible",
       {kExpertShards},
       [](const JudgedRun& r) {
         return r.shares_weights() && is_undivided(r.world(), product_of({r.derived("etp"), r.derived("ep"),
                                                                          r.pp(), r.derived("egtp")}));
       },
       "the ranks are a multiple of etp * ep * pp * the ranks that share weights of experts beyond etp",
       "another world size",
       {"etp", "ep", "pp", "egtp"}},
      {"gtp_instances",
       {kInstances, kWeightShards},
       [](const JudgedRun& r) { return r.shares_weights() && r.number(kInstances, 1) > 1; },
       "weights that are shared beyond tensor parallelism have one instance of the optimizer",
       "--num-distributed-optimizer-instances 1"},
      {"gtp_average_in_collective",
       {"ddp-average-in-collective", kWeightShards},
       [](const JudgedRun& r) { return r.shares_weights() && r.flag("ddp-average-in-collective"); },
       "gradients of weights that are shared beyond tensor parallelism are not averaged by the collective",
       "leave --ddp-average-in-collective out"},
      {"gtp_ckpt_format",
       {"ckpt-format", kWeightShards},
       [](const JudgedRun& r) { return r.shares_weights() && !has_shared_format(r); },
       "weights that are shared beyond tensor parallelism are saved in the formats torch and torch_dist",
       "--ckpt-format torch_dist"},
      {"gtp_mem_efficient",
       {"distrib-optim-fully-reshardable-mem-efficient", "dist-ckpt-optim-fully-reshardable", kWeightShards},
       [](const JudgedRun& r) {
         return r.shares_weights() && r.flag("dist-ckpt-optim-fully-reshardable") &&
                r.flag("distrib-optim-fully-reshardable-mem-efficient");
       },
       "the optimizer of weights that are shared beyond tensor parallelism is not saved in this way",
       "leave --distrib-optim-fully-reshardable-mem-efficient out"},
      {"gtp_mxfp8",
       {"fp8-recipe", "fp8-param-gather", "reuse-grad-buf-for-mxfp8-param-ag", kWeightShards},
       [](const JudgedRun& r) {
         return r.shares_weights() && r.has("fp8-format") && r.is("fp8-recipe", "mxfp8") &&
                !(r.flag("fp8-param-gather") && r.flag("reuse-grad-buf-for-mxfp8-param-ag"));
       },
       "mxfp8 with weights that are shared beyond tensor parallelism gathers them in 8 bits",
       "--fp8-param-gather --reuse-grad-buf-for-mxfp8-param-ag"},
      {"gtp_fp4",
       {"fp4-format", "fp4-param-gather", kWeightShards},
       [](const JudgedRun& r) {
         return r.shares_weights() && r.has("fp4-format") && !r.flag("fp4-param-gather");
       },
       "4-bit weights that are shared beyond tensor parallelism are gathered in 4 bits",
       "--fp4-param-gather"},
      {"sharp_group",
       {"sharp-enabled-group", "use-sharp", kInstances},
       [](const JudgedRun& r) {
         if (!r.has("sharp-enabled-group")) return false;
         return !r.flag("use-sharp") ||
                (r.is("sharp-enabled-group", "dp_replica") && r.number(kInstances, 1) == 1);
       },
       "a group for SHARP needs --use-sharp, and dp_replica several instances of the optimizer",
       "leave --sharp-enabled-group out"},
      {"sharp_group_uninitialized",
       {"use-sharp", "sharp-enabled-group"},
       [](const JudgedRun& r) { return r.flag("use-sharp") && r.text("sharp-enabled-group", "dp") == "dp"; },
       "with SHARP on its data-parallel groups, Megatron asks for a group before it makes it",
       "leave --use-sharp out"},
      {"fake_pg_flex",
       {"fake-process-group", "moe-token-dispatcher-type"},
       [](const JudgedRun& r) {
         return r.flag("fake-process-group") && r.is("moe-token-dispatcher-type", "flex");
       },
       "the dispatcher flex needs real process groups",
       "--moe-token-dispatcher-type alltoall"},
      {"hybrid_cp_even",
       {"hybrid-context-parallel"},
       [](const JudgedRun& r) {
         const auto ranks = product_of({r.derived("dp"), r.cp()});
         return r.flag("hybrid-context-parallel") && is_undivided(ranks, 2);
       },
       "context parallelism that follows each sample's length needs an even number of dp * cp ranks",
       "another world size",
       {"dp", "cp"}},
      {"ucc_max_connections",
       {"pipeline-model-parallel-comm-backend"},
       [](const JudgedRun& r) {
         return r.is("pipeline-model-parallel-comm-backend", "ucc") &&
                r.environment("CUDA_DEVICE_MAX_CONNECTIONS") == "1";
       },
       "a pipeline over UCC needs CUDA_DEVICE_MAX_CONNECTIONS above 1, and the file sets 1",
       "CUDA_DEVICE_MAX_CONNECTIONS=32"},
  };
}

}  // namespace verify
