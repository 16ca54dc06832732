#pragma once

/// Adam on main parameters. Each data-parallel rank keeps the part of them that it owns (ZeRO-1), or all of
/// them without the distributed optimizer.
///
/// Shapes  for each owned piece of a parameter: the main parameter and two moments, in f32 where the
///         parameter is bf16. Otherwise the piece of the parameter is its own main parameter. Bytes per
///         element of a bf16 (f32) parameter: on every rank 2 (4) for the value and 4 for the gradient; 12
///         (8) spread over the owners.
/// Calls   a step: one all_reduce(max) of a flag if losses are scaled, and one all_reduce(sum) of one
///         number if gradients are clipped or their norm is logged, both over all ranks that own different
///         pieces (without the distributed optimizer two of each: of dense parameters over mp, of experts
///         over tp-ep-pp); then for each bucket one all_gather of B/D in the parameter's dtype.
/// Errors  those of adam.h. Reading a parameter before it has been gathered is a finding of the world.
/// Exact   The norm counts each element of the model once: it adds owned pieces, leaves out shared copies,
///         and takes replicated parameters on the first tensor-parallel rank only. A skipped step changes
///         nothing but the loss scale.
/// Source  Rajbhandari et al. 2020; Megatron-LM, DistributedOptimizer and clip_grads.py.

#include "sim/optimizer/distributed_data_parallel.h"
#include "sim/optimizer/loss_scale.h"
#include "sim/tensor/adam.h"

namespace sim {

struct OptimizerConfig {
  Ratio beta1 = {9, 10};
  Ratio beta2 = {999, 1000};
  Ratio epsilon = {1, 100'000'000};
  Ratio weight_decay = {0, 1};  // only for parameters with more than one dimension
  bool decoupled_weight_decay = true;
  Ratio clip_grad = {0, 1};    // the largest norm of all gradients; 0: no clipping
  bool log_grad_norm = false;  // compute the norm even without clipping
  LossScaleConfig loss_scale = {};
  /// Whether some rank of the pipeline has parameters of experts in buffers of their own, also where this
  /// rank has none: it takes part in their norm.
  bool has_experts = false;
  bool overlap_param_gather = false;  // the caller calls start_param_gather() and wait_for() itself
};

class DistributedOptimizer {
 public:
  DistributedOptimizer(Rank& rank, DistributedDataParallel& data_parallel, const OptimizerConfig& config);

  /// Updates the parameters from reduced gradients. Returns false if the step was skipped because a
  /// gradient is not finite.
  bool step(Ratio learning_rate);
  Ratio loss_scale() const { return loss_scale_.scale(); }

  /// Starts the all_gather of every bucket: the last one first with overlap_param_gather, because it has the
  /// parameters that forward uses first, and else the first one first, as Megatron does.
  void start_param_gather();
  /// Waits until a parameter has been gathered. Call it before the parameter's first use in a step.
  void wait_for(const Parameter& parameter);
  void finish_param_gather();

  /// A part of a parameter that this rank owns.
  struct Piece {
    Parameter* parameter;
    ElementRange range;  // in the parameter's elements
    Tensor grad, main, exp_avg, exp_avg_sq;
    Tensor value;  // the values of the piece in the model; the same tensor as `main` unless they are bf16
  };
  std::vector<Piece>& pieces() { return pieces_; }
  const DistributedDataParallel& data_parallel() const { return data_parallel_; }
  std::int64_t steps() const { return steps_; }
  /// Returns the squared norm of all gradients of the latest step, before clipping; an empty Tensor() if no
  /// norm has been computed yet.
  const Tensor& grad_norm_squared() const { return grad_norm_squared_; }
  const LossScale& loss_scaling() const { return loss_scale_; }
  /// Whether the norm counts this rank's gradient of a parameter: this rank is the first of the
  /// model-parallel ranks that hold the same elements of it.
  bool is_counted(const Parameter& parameter) const;
  /// Call it on all ranks after main parameters and moments were changed from outside. It copies the main
  /// parameters into the model, on every rank.
  void restore(std::int64_t steps, const LossScaleState& loss_scale);
  /// Returns the bytes that this rank holds for its pieces only: moments, and main parameters where they are
  /// separate.
  std::int64_t owned_bytes() const;

 private:
  /// Copies the main parameter of a piece into the model's value, where they are separate.
  static void renew_value(Piece& piece);
  /// A selection of parameters, and the group whose ranks hold different gradients of them.
  struct Sharers {
    const char* group;
    bool (*hold)(const Parameter&);
  };
  std::vector<Sharers> sharers() const;
  bool found_nonfinite();
  void take_norm();
  void clip();
  /// Adds to `sum` the squares of the gradients that the sharers hold, summed over their group.
  void add_squares(const Sharers& sharers, Tensor& sum);
  AdamStep step_of(const Parameter& parameter, Ratio learning_rate) const;

  Rank& rank_;
  DistributedDataParallel& data_parallel_;
  OptimizerConfig config_;
  LossScale loss_scale_;
  std::vector<Piece> pieces_;
  std::int64_t steps_ = 0;
  Tensor grad_norm_squared_;
  struct Gather {
    DistributedDataParallel::Place place;
    Work work;
  };
  std::vector<Gather> gathers_;
};

}  // namespace sim
