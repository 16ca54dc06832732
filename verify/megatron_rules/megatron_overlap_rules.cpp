#include "verify/megatron_rules/megatron_rule.h"

namespace verify::megatron {

namespace {

constexpr const char* kOverlap = "overlap-moe-expert-parallel-comm";

bool overlaps(const Settings& s) { return s.flag("overlap-moe-expert-parallel-comm"); }

MaybeBreak overlap_without_chunks(const Settings& s) {
  return broken_if(overlaps(s) && pp_of(s) > 1 && !virtual_pipeline_size(s),
                   fmt::format("pp is {}, without chunks", pp_of(s)),
                   "an interleaved schedule, or leave --overlap-moe-expert-parallel-comm out");
}

MaybeBreak overlap_without_expert_grid(const Settings& s) {
  const bool has_grid = s.has("world-size");  // the command schedule may have a pipeline alone
  return broken_if(overlaps(s) && has_grid && ep_of(s) == 1, "ep is 1",
                   of_experts(s, "--expert-model-parallel-size 2", "--overlap-moe-expert-parallel-comm"));
}

MaybeBreak overlap_without_all_to_all(const Settings& s) {
  return broken_if(
      overlaps(s) && !is_all_to_all(s), "the token dispatcher is allgather",
      of_experts(s, "--moe-token-dispatcher-type alltoall", "--overlap-moe-expert-parallel-comm"));
}

MaybeBreak overlap_with_full_recompute(const Settings& s) {
  return broken_if(overlaps(s) && recomputes(s, "full"), "given with --recompute-granularity full",
                   "leave one of them out");
}

MaybeBreak overlap_with_recompute_method(const Settings& s) {
  return broken_if(overlaps(s) && s.has("recompute-method"), "given with --recompute-method",
                   "leave one of them out");
}

MaybeBreak overlap_with_recomputed_layers(const Settings& s) {
  return broken_if(overlaps(s) && s.has("recompute-num-layers"), "given with --recompute-num-layers",
                   "leave one of them out");
}

MaybeBreak overlap_with_shared_overlap(const Settings& s) {
  return broken_if(overlaps(s) && s.flag("moe-shared-expert-overlap"),
                   "given with --moe-shared-expert-overlap", "leave one of them out");
}

MaybeBreak overlap_with_prediction_layers(const Settings& s) {
  const std::int64_t layers = s.number("mtp-num-layers").value_or(0);
  return broken_if(overlaps(s) && layers > 1, fmt::format("{} prediction layers", layers),
                   "--mtp-num-layers 1");
}

}  // namespace

/// The rules about the overlap of the experts' all-to-all with computation.
std::vector<Rule> overlap_rules() {
  return {
      {"overlap_needs_vpp",
       {kOverlap, kPp},
       overlap_without_chunks,
       "with pp above 1 the overlap needs an interleaved schedule"},
      {"ep_overlap_needs_ep",
       {kOverlap, kEp},
       overlap_without_expert_grid,
       "the overlap needs expert parallelism"},
      {"ep_overlap_dispatcher",
       {kOverlap, kDispatcher},
       overlap_without_all_to_all,
       "the overlap goes with alltoall or flex"},
      {"ep_overlap_full_recompute",
       {kOverlap, kRecompute},
       overlap_with_full_recompute,
       "the overlap goes without full recomputation"},
      {"ep_overlap_recompute_method",
       {kOverlap, "recompute-method"},
       overlap_with_recompute_method,
       "the overlap goes without a method of recomputation"},
      {"ep_overlap_recompute_layers",
       {kOverlap, "recompute-num-layers"},
       overlap_with_recomputed_layers,
       "the overlap goes without a number of recomputed layers"},
      {"ep_overlap_shared_overlap",
       {kOverlap, "moe-shared-expert-overlap"},
       overlap_with_shared_overlap,
       "one of the two overlaps"},
      {"ep_overlap_mtp_layers",
       {kOverlap, "mtp-num-layers"},
       overlap_with_prediction_layers,
       "the overlap goes with at most one layer of multi-token prediction"},
  };
}

}  // namespace verify::megatron
