#pragma once

/// The sizes of a pipeline schedule, its steps, and who hands what to whom.
///
/// Shapes  p ranks, m microbatches, v chunks on each rank (virtual stages; 1 without interleaving). Stage s
///         of the model, of p v, lies on rank s % p as chunk s / p: after rank p - 1 the next chunk goes on
///         at rank 0.
/// Errors  pipeline_sizes: a size below 1; schedule_size: more steps over all ranks than kMostSteps;
///         vpp_needs_pp: chunks on a pipeline of one rank; group_needs_vpp, overlap_needs_vpp: what only the
///         interleaved schedule reads; microbatch_group_size: N not in [p, m]; microbatch_group_remainder: m
///         mod N is neither 0 nor p or more.
/// Source  Megatron-LM, core/pipeline_parallel/schedules.py; Narayanan et al. 2021.

#include <compare>
#include <cstdint>
#include <optional>
#include <string>

namespace sim {

enum class Pass : std::uint8_t { forward, backward };

/// One microbatch through one chunk of a rank, there or back.
struct Step {
  Pass pass = Pass::forward;
  int microbatch = 0;
  int chunk = 0;
  auto operator<=>(const Step&) const = default;
};

/// "F 3 of chunk 1"
std::string text_of(const Step& step);

struct PipelineShape {
  std::int64_t pipeline_model_parallel_size = 1;                                 // p
  std::int64_t num_microbatches = 1;                                             // m
  std::optional<std::int64_t> virtual_pipeline_model_parallel_size;              // v; none: not interleaved
  std::optional<std::int64_t> microbatch_group_size_per_virtual_pipeline_stage;  // N; none: p
  bool forward_only = false;
  bool overlap_moe_expert_parallel_comm = false;  // one more forward step before the first backward

  int ranks() const { return static_cast<int>(pipeline_model_parallel_size); }
  int microbatches() const { return static_cast<int>(num_microbatches); }
  int chunks() const { return static_cast<int>(virtual_pipeline_model_parallel_size.value_or(1)); }
  int group_size() const {
    return static_cast<int>(
        microbatch_group_size_per_virtual_pipeline_stage.value_or(pipeline_model_parallel_size));
  }
  /// Forward steps of a rank.
  int forward_steps() const { return microbatches() * chunks(); }
  bool is_interleaved() const { return virtual_pipeline_model_parallel_size.has_value(); }
};

/// Of all ranks together: a schedule is held in memory, 500 bytes a step with its timeline and JSON.
inline constexpr std::int64_t kMostSteps = 1 << 20;

/// Refuses what makes no schedule.
void check(const PipelineShape& shape);

/// The other side of a step's input or output.
struct Peer {
  int rank = 0;
  Step step;  // there
  bool operator==(const Peer&) const = default;
};

/// Whose output is the step's input: none for the first stage forward and the last one backward.
std::optional<Peer> source_of(const PipelineShape& shape, int rank, const Step& step);
/// Whose input is the step's output: none for the last stage forward and the first one backward.
std::optional<Peer> consumer_of(const PipelineShape& shape, int rank, const Step& step);

}  // namespace sim
