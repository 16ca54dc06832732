#include "verify/megatron_rules/run_rule.h"

namespace verify {

namespace {

constexpr const char* kDefer = "defer-embedding-wgrad-compute";

}  // namespace

/// The rules about the communication of the pipeline and the gradients of its embeddings.
std::vector<RunRule> run_pipeline_rules() {
  return {
      {"vpp_no_overlap_needs_pp3",
       {"no-overlap-p2p-communication", "pipeline-model-parallel-size"},
       [](const JudgedRun& r) {
         return r.flag("no-overlap-p2p-communication") && r.derived("vpp") && r.pp() && *r.pp() < 3;
       },
       "an interleaved schedule without overlap of its communication needs pp of at least 3",
       "leave --no-overlap-p2p-communication out",
       {"vpp"}},
      {"warmup_flush_overlap",
       {"overlap-p2p-communication-warmup-flush", "no-overlap-p2p-communication"},
       [](const JudgedRun& r) {
         return r.flag("overlap-p2p-communication-warmup-flush") && !r.derived_flag("overlap_p2p_comm");
       },
       "communication overlaps in warmup and flush where it overlaps in an interleaved schedule",
       "leave --overlap-p2p-communication-warmup-flush out",
       {"vpp"}},
      {"defer_embedding_pp",
       {kDefer, "pipeline-model-parallel-size"},
       [](const JudgedRun& r) { return r.flag(kDefer) && r.pp() == std::int64_t{1}; },
       "the weight gradients of the embedding are deferred in a pipeline alone",
       "leave --defer-embedding-wgrad-compute out"},
      {"defer_embedding_fusion",
       {kDefer, "no-gradient-accumulation-fusion"},
       [](const JudgedRun& r) { return r.flag(kDefer) && r.flag("no-gradient-accumulation-fusion"); },
       "deferred weight gradients of the embedding need the fused accumulation of gradients",
       "leave --no-gradient-accumulation-fusion out"},
      {"defer_embedding_limit",
       {"wgrad-deferral-limit", kDefer},
       [](const JudgedRun& r) { return r.flag(kDefer) && r.number("wgrad-deferral-limit", 0) < 0; },
       "the number of deferred microbatches is not negative",
       "--wgrad-deferral-limit 0"},
  };
}

}  // namespace verify
