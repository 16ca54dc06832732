#include "verify/megatron_rules/run_rule.h"

namespace verify {

/// The arguments that Megatron has removed, and stops at where they are given.
std::vector<RunRule> removed_argument_rules() {
  constexpr const char* kRemoved = "Megatron has removed this argument, and stops where it is given";
  return {
      {"batch_size_removed",
       {"batch-size"},
       [](const JudgedRun& r) { return r.has("batch-size"); },
       kRemoved,
       "--micro-batch-size"},
      {"warmup_removed",
       {"warmup"},
       [](const JudgedRun& r) { return r.has("warmup"); },
       kRemoved,
       "--lr-warmup-fraction"},
      {"model_parallel_size_removed",
       {"model-parallel-size"},
       [](const JudgedRun& r) { return r.has("model-parallel-size"); },
       kRemoved,
       "--tensor-model-parallel-size"},
      {"checkpoint_activations_removed",
       {"checkpoint-activations"},
       [](const JudgedRun& r) { return r.flag("checkpoint-activations"); },
       kRemoved,
       "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1 in its place"},
      {"no_position_embedding_removed",
       {"no-position-embedding", "position-embedding-type"},
       [](const JudgedRun& r) {
         return r.flag("no-position-embedding") && r.derived_text("position_embedding_type") != "rope";
       },
       "the type of positions says that there are none",
       "--position-embedding-type none"},
  };
}

}  // namespace verify
