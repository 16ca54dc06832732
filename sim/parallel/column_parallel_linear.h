#pragma once

/// Y = X A^T + b, the rows of A (output features) split over the tensor-model-parallel group.
///
/// Shapes  input [T, H] replicated, or [T/tp, H] with sequence_parallel;  weight [F/tp, H] and bias [F/tp]
///         this rank's rows; output [T, F/tp] sharded(1), or [T, F] replicated with gather_output. With
///         stride s, F/tp are s blocks: gate and up of a gated MLP are two matrices in one.
/// Calls   forward: none; all_gather of [T/tp, H] with sequence_parallel; all_gather of [T, F/tp] with
///         gather_output. backward: one all_reduce(sum) of [T, H], started before the weight gradient and
///         waited for after it. With sequence_parallel: all_gather of the input again, and reduce_scatter of
///         [T, H] in place of the all_reduce.
/// Errors  partition when F does not divide by tp and stride; layer_config; those of the operations.
/// Exact   forward equals the serial layer bit for bit; grad_input differs by the order of tp additions.
/// Source  Shoeybi et al. 2019, section 3, operator f; Korthikanti et al. 2022; Megatron-LM
///         ColumnParallelLinear.

#include <string>

#include "sim/parallel/parameter.h"

namespace sim {

struct ColumnParallelLinearConfig {
  std::string name;
  DType dtype = DType::f32;
  std::int64_t input_size = 0;   // H
  std::int64_t output_size = 0;  // F
  bool bias = true;
  bool gather_output = false;
  bool skip_bias_add = false;  // the bias is not added, and its gradient is the caller's
  bool sequence_parallel = false;
  int stride = 1;
  Initial initial = {};
};

class ColumnParallelLinear {
 public:
  /// `shared_weight`: of another layer, [F/tp, H], as an output layer has the embedding's; null: a weight of
  /// its own.
  ColumnParallelLinear(Rank& rank, ColumnParallelLinearConfig config, Parameter* shared_weight = nullptr);

  struct Saved {
    Tensor input;
  };
  struct Forward {
    Tensor output;
    Saved saved;
  };
  Forward forward(const Tensor& input);
  /// The gradient of input; adds to main_grad of weight and bias.
  Tensor backward(const Saved& saved, const Tensor& grad_output);

  Parameter& weight() { return shared_weight_ != nullptr ? *shared_weight_ : weight_; }
  /// Its value is none without a bias.
  Parameter& bias() { return bias_; }
  /// Its own: not a weight that another layer has.
  std::vector<Parameter*> parameters();

 private:
  ColumnParallelLinearConfig config_;
  Communicator& tp_;
  Parameter* shared_weight_;
  Parameter weight_;
  Parameter bias_;
};

}  // namespace sim
