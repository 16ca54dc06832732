#pragma once

/// What each rank of a published model holds in training: parameters, gradients and optimizer states, from
/// the buffers and range maps of the distributed optimizer, without allocating any of it; and activations, by
/// its pipeline schedule.
///
/// Shapes  bytes of bf16 training: 2 a parameter, 4 a gradient, with the padding of the buffers, and 12 for
///         each owned element. The vocabulary is padded to a multiple of 128 tp; a tied output layer on
///         another stage than the embedding is a copy. Activations as in activation_memory.h; none where no
///         schedule is given, or where they are more than 2^53.
/// Exact   over tensor-parallel ranks and stages, the elements add up to those of the model.
/// Source  Rajbhandari et al. 2020, section 3; Megatron-LM, optimizer/distrib_optimizer.py.

#include <optional>

#include "sim/layout/layer_placement.h"
#include "sim/layout/layout.h"
#include "sim/optimizer/buffer_layout.h"
#include "sim/pipeline/schedules.h"
#include "verify/checks/check_result.h"
#include "verify/checks/parameter_count.h"

namespace verify {

/// One parameter of a stage, as a rank of a tensor-model-parallel group holds it.
struct HeldParameter {
  std::int64_t elements = 0;
  bool is_sharded = false;  // else each rank of the group holds the same
  bool is_shared = false;   // tied to one of another stage
};

struct Stage {
  std::int64_t layers = 0;
  bool is_first = false;
  bool is_last = false;
};

/// In the order of the model.
std::vector<HeldParameter> held_parameters(const ModelShape& shape, const Stage& stage, int tp);

struct HeldBytes {
  std::int64_t parameters = 0;
  std::int64_t gradients = 0;
  std::int64_t optimizer = 0;    // of the rank that owns most
  std::int64_t activations = 0;  // where most are in flight
  std::int64_t all() const { return parameters + gradients + optimizer + activations; }
};
HeldBytes held_bytes(const std::vector<HeldParameter>& parameters, int owners);

struct MemoryReport {
  CheckResult row;                // "memory": of the stage that holds most
  int owners = 1;                 // ranks that share the optimizer states of a stage
  bool has_activations = false;   // they are counted, too
  std::vector<HeldBytes> stages;  // what a rank of each pipeline stage holds
};

/// What activations depend on, beside the model and where its layers lie.
struct ActivationRun {
  std::int64_t tokens = 0;  // of a microbatch, on a rank
  bool sequence_parallel = false;
  bool recompute = false;
  sim::ScheduleFunction schedule = nullptr;
  sim::PipelineShape pipeline;
};

MemoryReport check_memory(const ModelShape& shape, const sim::Layout& layout,
                          const sim::LayerPlacement& placement, const std::optional<ActivationRun>& run);

}  // namespace verify
