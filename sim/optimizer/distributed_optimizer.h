#pragma once

/// Adam on main parameters, of which each data-parallel rank keeps the part that it owns (ZeRO-1), or all of
/// them without the distributed optimizer.
///
/// Shapes  for each owned piece of a parameter: main parameter and two moments, in f32 where the parameter is
///         bf16. Where it is not, the piece of the parameter is its own main parameter. Bytes of a parameter
///         of bf16 (f32): 2 (4) for the value and 4 for the gradient on every rank, 12 (8) spread over the
///         owners.
/// Calls   a step: all_reduce(max) of a flag where losses are scaled, all_reduce(sum) of one number where
///         gradients are clipped, over all ranks that own different pieces (without the distributed optimizer
///         two: of dense parameters over mp, of experts over tp-ep-pp); then for each bucket one all_gather
///         of B/D in the parameter's dtype.
/// Errors  those of adam.h. A parameter that is read before it has been gathered is a finding of the world.
/// Exact   in the norm each element of the model counts once: owned pieces, without shared copies, and
///         replicated parameters on the first tensor-parallel rank alone. A skipped step changes nothing but
///         the loss scale.
/// Source  Rajbhandari et al. 2020; Megatron-LM, DistributedOptimizer and clip_grads.py.

#include "sim/optimizer/distributed_data_parallel.h"
#include "sim/optimizer/loss_scale.h"
#include "sim/tensor/adam.h"

namespace sim {

struct OptimizerConfig {
  Ratio beta1 = {9, 10};
  Ratio beta2 = {999, 1000};
  Ratio epsilon = {1, 100'000'000};
  Ratio weight_decay = {0, 1};  // of parameters with more than one dimension
  bool decoupled_weight_decay = true;
  Ratio clip_grad = {0, 1};    // largest norm of all gradients; 0: not clipped
  bool log_grad_norm = false;  // taken even where nothing is clipped
  LossScaleConfig loss_scale = {};
  bool overlap_param_gather = false;  // start_param_gather() and wait_for() are the caller's
};

class DistributedOptimizer {
 public:
  DistributedOptimizer(Rank& rank, DistributedDataParallel& data_parallel, const OptimizerConfig& config);

  /// With reduced gradients. False: skipped, because of a gradient that is not finite.
  bool step(Ratio learning_rate);
  Ratio loss_scale() const { return loss_scale_.scale(); }

  /// In the order of forward: the bucket of the first parameters is the last.
  void start_param_gather();
  /// Before a parameter's first use in a step.
  void wait_for(const Parameter& parameter);
  void finish_param_gather();

  /// A part of a parameter that this rank owns.
  struct Piece {
    Parameter* parameter;
    ElementRange range;  // of the parameter's elements
    Tensor grad, main, exp_avg, exp_avg_sq;
    Tensor value;  // of the parameter; main itself where it is no bf16
  };
  std::vector<Piece>& pieces() { return pieces_; }
  const DistributedDataParallel& data_parallel() const { return data_parallel_; }
  std::int64_t steps() const { return steps_; }
  /// Of all gradients of the latest step, squared, before they were clipped; none before the first.
  const Tensor& grad_norm_squared() const { return grad_norm_squared_; }
  const LossScale& loss_scaling() const { return loss_scale_; }
  /// After main parameters and moments were changed from outside: the model has them, on every rank. All
  /// ranks call it.
  void restore(std::int64_t steps, const LossScaleState& loss_scale);
  /// Bytes that this rank has for its pieces alone.
  std::int64_t owned_bytes() const;

 private:
  /// The model's own value, from the main parameter.
  static void renew_value(Piece& piece);
  bool found_nonfinite();
  void take_norm();
  void clip();
  /// Of some of the gradients, over a group whose ranks have different ones.
  void add_squares(const char* group, bool (*is_of)(const Parameter&), Tensor& sum);
  bool is_counted(const Parameter& parameter) const;
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
