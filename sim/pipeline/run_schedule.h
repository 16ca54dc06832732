#pragma once

/// Runs any schedule. There is one executor; it walks the list of its rank and makes no decisions.
///
/// Shapes  The activation that a stage sends to the next one, and its gradient, have the shape and dtype of
///         `wire`: [S/cp, B, H], or [S/cp/tp, B, H] with sequence parallelism.
/// Calls   pp: the batches of the list, each one Communicator::batch, in order. Only tensors in flight are
///         kept: an input until its step is computed, an output until it is sent.
/// Errors  schedule_group: the group has another size than the shape; stage_output: a tensor does not have
///         the shape and dtype of the wire; those of schedule_checks.h, before anything runs.
/// Source  Megatron-LM, core/pipeline_parallel/schedules.py: forward_step, backward_step.

#include "sim/comm/rank.h"
#include "sim/pipeline/schedule.h"

namespace sim {

/// The computation of a rank, that is, its part of the model. A stage itself stores what it needs between
/// forward and backward, by microbatch and chunk.
class StageProgram {
 public:
  virtual ~StageProgram() = default;
  /// Returns the output of a step. `input` is an empty Tensor() on the first stage; the output of the last
  /// stage is ignored.
  virtual Tensor forward(int microbatch, int chunk, const Tensor& input) = 0;
  /// Returns the gradient of a step's input. `grad_output` is an empty Tensor() on the last stage; the
  /// gradient that the first stage returns is ignored.
  virtual Tensor backward(int microbatch, int chunk, const Tensor& grad_output) = 0;
  /// The executor calls it after the last backward step of a chunk, whose gradients may now be reduced over
  /// data-parallel ranks.
  virtual void grads_are_complete(int /*chunk*/) {}
};

/// The shape and dtype of the activations that one stage sends to the next, and of their gradients.
struct StageTensor {
  DType dtype = DType::f32;
  Shape shape;
};

/// Runs the schedule of this rank. Returns the largest number of microbatches that were in flight at once.
int run_schedule(Rank& rank, Communicator& pp, const PipelineShape& shape, const RankSchedule& schedule,
                 StageProgram& stage, const StageTensor& wire);

}  // namespace sim
