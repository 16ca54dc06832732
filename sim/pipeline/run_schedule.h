#pragma once

/// Runs any schedule: one executor, which walks a rank's list and decides nothing.
///
/// Shapes  what one stage hands the next, and its gradient, has the shape and dtype of `wire`: [S/cp, B, H],
///         or [S/cp/tp, B, H] with sequence parallelism.
/// Calls   pp: the batches of the list, each one Communicator::batch, in order. At a time only what is in
///         flight is kept: an input until its step is computed, an output until it is sent.
/// Errors  schedule_group: a group of another size than the shape says; stage_output: a tensor that is not as
///         `wire` says; those of schedule_checks.h, before anything runs.
/// Source  Megatron-LM, core/pipeline_parallel/schedules.py: forward_step, backward_step.

#include "sim/comm/rank.h"
#include "sim/pipeline/schedule.h"

namespace sim {

/// What a rank computes: its part of the model. What a stage keeps between forward and backward it keeps
/// itself, by microbatch and chunk.
class StageProgram {
 public:
  virtual ~StageProgram() = default;
  /// `input` is none on the first stage; what is returned by the last goes nowhere.
  virtual Tensor forward(int microbatch, int chunk, const Tensor& input) = 0;
  /// `grad_output` is none on the last stage; what is returned by the first goes nowhere.
  virtual Tensor backward(int microbatch, int chunk, const Tensor& grad_output) = 0;
  /// After a chunk's last backward step: its gradients may be reduced over data-parallel ranks.
  virtual void grads_are_complete(int /*chunk*/) {}
};

/// What goes from one stage to the next, and its gradient back.
struct StageTensor {
  DType dtype = DType::f32;
  Shape shape;
};

/// Most microbatches that were in flight.
int run_schedule(Rank& rank, Communicator& pp, const PipelineShape& shape, const RankSchedule& schedule,
                 StageProgram& stage, const StageTensor& wire);

}  // namespace sim
