#pragma once

/// The order in which a pipeline rank computes, derived without sim/pipeline. A step is a forward or backward
/// pass of one microbatch through one of the rank's chunks of the model.
///
/// Shapes  p ranks, m microbatches, v chunks on a rank; N microbatches go through a chunk at a time.
/// Source  Huang et al. 2019, figure 2; Narayanan et al. 2021, figures 3 and 4; Megatron-LM,
///         get_pp_rank_microbatches and get_schedule_table.

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace verify::reference {

enum class Schedule : std::uint8_t { none, gpipe, one_forward_one_backward, interleaved };

struct PipelineSetting {
  Schedule schedule = Schedule::one_forward_one_backward;
  int ranks = 1;         // p
  int microbatches = 1;  // m
  int chunks = 1;        // v
  int group = 1;         // N; at least p where the schedule is interleaved, and else of no effect
};

struct PipelineStep {
  bool is_backward = false;
  int microbatch = 0;
  int chunk = 0;
  bool operator==(const PipelineStep&) const = default;
};

/// Returns a step as text, such as "backward of microbatch 3 in chunk 1".
inline std::string text_of(const PipelineStep& step) {
  return std::string(step.is_backward ? "backward" : "forward") + " of microbatch " +
         std::to_string(step.microbatch) + " in chunk " + std::to_string(step.chunk);
}

/// The number of forward steps before the first backward step.
inline int warmup_steps(const PipelineSetting& setting, int rank) {
  const int all = setting.microbatches * setting.chunks;
  const int behind = setting.ranks - 1 - rank;  // ranks after this one
  switch (setting.schedule) {
    case Schedule::none:
      return 0;
    case Schedule::gpipe:
      return all;
    case Schedule::one_forward_one_backward:
      return std::min(behind, all);
    case Schedule::interleaved:
      return std::min(2 * behind + (setting.chunks - 1) * setting.group, all);
  }
  return 0;
}

/// Returns the k-th forward or backward step of a rank.
inline PipelineStep pipeline_step(const PipelineSetting& setting, bool is_backward, int k) {
  const int first = k / (setting.group * setting.chunks) * setting.group;  // the first one of the group
  const int members = std::min(setting.group, setting.microbatches - first);
  const int within = k - first * setting.chunks;
  const int turn = within / members;
  return {is_backward, first + within % members, is_backward ? setting.chunks - 1 - turn : turn};
}

/// Returns all steps of a rank, in order.
inline std::vector<PipelineStep> pipeline_order(const PipelineSetting& setting, int rank) {
  const int all = setting.microbatches * setting.chunks;
  const int warmup = warmup_steps(setting, rank);
  std::vector<PipelineStep> order;
  for (int k = 0; k < all + warmup; ++k) {
    if (k < all) order.push_back(pipeline_step(setting, false, k));
    if (k >= warmup) order.push_back(pipeline_step(setting, true, k - warmup));
  }
  return order;
}

/// Returns the largest number of activations that a rank keeps at once: a forward step leaves them, and the
/// backward step of the same microbatch and chunk takes them away.
inline int most_activations(const PipelineSetting& setting, int rank) {
  int kept = 0;
  int most = 0;
  for (const PipelineStep& step : pipeline_order(setting, rank)) {
    kept += step.is_backward ? -1 : 1;
    most = std::max(most, kept);
  }
  return most;
}

}  // namespace verify::reference
