#pragma once

/// Y = X A^T + b, the columns of A (input features) split over the tensor-model-parallel group.
///
/// Shapes  input [T, F/tp] sharded(1), or [T, F] replicated without input_is_parallel;  weight [H, F/tp] this
///         rank's columns, bias [H] replicated;  output [T, H] replicated, or [T/tp, H] with
///         sequence_parallel.
/// Calls   forward: one all_reduce(sum) of [T, H]; with sequence_parallel one reduce_scatter instead.
///         backward: none; with sequence_parallel one all_gather of [T/tp, H]; without input_is_parallel one
///         all_gather of [T, F/tp].
/// Errors  partition when F does not divide by tp; layer_config; those of the operations.
/// Exact   output differs from the serial layer by the order of its additions, one bias is added after the
///         sum; weight gradients equal the serial ones bit for bit.
/// Source  Shoeybi et al. 2019, section 3, operator g; Korthikanti et al. 2022; Megatron-LM
///         RowParallelLinear.

#include <string>

#include "sim/parallel/parameter.h"

namespace sim {

struct RowParallelLinearConfig {
  std::string name;
  DType dtype = DType::f32;
  std::int64_t input_size = 0;   // F
  std::int64_t output_size = 0;  // H
  bool bias = true;
  bool input_is_parallel = true;
  bool skip_bias_add = false;  // the bias is not added, and its gradient is the caller's
  bool sequence_parallel = false;
  Initial initial = {};
};

class RowParallelLinear {
 public:
  RowParallelLinear(Rank& rank, RowParallelLinearConfig config);

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

  Parameter& weight() { return weight_; }
  /// Its value is none without a bias. With sequence_parallel its gradient is of this rank's tokens, and is
  /// flagged so.
  Parameter& bias() { return bias_; }
  std::vector<Parameter*> parameters();

 private:
  RowParallelLinearConfig config_;
  Communicator& tp_;
  Parameter weight_;
  Parameter bias_;
};

}  // namespace sim
