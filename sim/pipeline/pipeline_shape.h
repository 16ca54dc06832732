#pragma once

/// The sizes of a pipeline schedule, its steps, and the stage that each step receives from and sends to.
///
/// Shapes  p ranks, m microbatches, v chunks on each rank (virtual stages; 1 without interleaving). Stage s
///         of the p v stages of the model lies on rank s % p as chunk s / p: after rank p - 1, the model
///         continues with the next chunk on rank 0.
/// Errors  pipeline_sizes: a size below 1; schedule_size: more steps over all ranks than kMostSteps;
///         vpp_needs_pp: chunks on a pipeline of one rank; overlap_needs_vpp: an overlap that only the
///         interleaved schedule has. With chunks: microbatch_group_size: N is not in [p, m];
///         microbatch_group_remainder: m mod N is neither 0 nor at least p.
/// Source  Megatron-LM, core/pipeline_parallel/schedules.py; Narayanan et al. 2021.

#include <compare>
#include <cstdint>
#include <optional>
#include <string>

namespace sim {

enum class Pass : std::uint8_t { forward, backward };

/// The forward or backward pass of one microbatch through one chunk of a rank.
struct Step {
  Pass pass = Pass::forward;
  int microbatch = 0;
  int chunk = 0;
  auto operator<=>(const Step&) const = default;
};

/// Returns a step as text, such as "F 3 of chunk 1".
std::string text_of(const Step& step);

struct PipelineShape {
  std::int64_t pipeline_model_parallel_size = 1;                     // p
  std::int64_t num_microbatches = 1;                                 // m
  std::optional<std::int64_t> virtual_pipeline_model_parallel_size;  // v; none: not interleaved
  std::optional<std::int64_t>
      microbatch_group_size_per_virtual_pipeline_stage;  // N; none: p. Read with chunks.
  bool forward_only = false;
  bool overlap_moe_expert_parallel_comm = false;  // one more forward step in the warm-up, if interleaved

  int ranks() const { return static_cast<int>(pipeline_model_parallel_size); }
  int microbatches() const { return static_cast<int>(num_microbatches); }
  int chunks() const { return static_cast<int>(virtual_pipeline_model_parallel_size.value_or(1)); }
  int group_size() const {
    return static_cast<int>(
        microbatch_group_size_per_virtual_pipeline_stage.value_or(pipeline_model_parallel_size));
  }
  /// Returns the number of forward steps of a rank, v m.
  int forward_steps() const { return microbatches() * chunks(); }
  bool is_interleaved() const { return virtual_pipeline_model_parallel_size.has_value(); }
};

/// The most steps of all ranks together. A schedule is held in memory, and a step takes 500 bytes with its
/// timeline and JSON.
inline constexpr std::int64_t kMostSteps = 1 << 20;

/// Refuses a shape that has no schedule.
void check(const PipelineShape& shape);

/// The step that a step's input comes from or its output goes to.
struct Peer {
  int rank = 0;
  Step step;  // on that rank
  bool operator==(const Peer&) const = default;
};

/// Returns the step whose output is the input of `step`: nothing for the first stage in forward, and for
/// the last stage in backward.
std::optional<Peer> source_of(const PipelineShape& shape, int rank, const Step& step);
/// Returns the step whose input is the output of `step`: nothing for the last stage in forward, and for the
/// first stage in backward.
std::optional<Peer> consumer_of(const PipelineShape& shape, int rank, const Step& step);

}  // namespace sim
