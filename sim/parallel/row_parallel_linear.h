#pragma once

/// A linear layer Y = X A^T + b whose weight A is split by columns (input features) over the
/// tensor-model-parallel group.
///
/// Shapes  input [T, F/tp] sharded(1), or [T, F] replicated without input_is_parallel;  weight [H, F/tp]:
///         this rank's columns; bias [H] replicated;  output [T, H] replicated, or [T/tp, H] with
///         sequence_parallel.
/// Calls   forward: one all_reduce(sum) of [T, H]; with sequence_parallel one reduce_scatter instead.
///         backward: none; with sequence_parallel one all_gather of [T/tp, H]; without input_is_parallel one
///         all_gather of [T, F/tp].
/// Errors  partition, when F is not a multiple of tp; layer_config, when a sequence-parallel layer has an
///         input that is not split over features; those of the operations.
/// Exact   The output differs from the serial layer only in the order of its additions: the bias is added
///         once, after the sum over the group. Weight gradients equal the serial ones bit for bit.
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
  bool skip_bias_add = false;  // the caller adds the bias, and computes its gradient
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
  /// Returns the gradient of the input, and adds to main_grad of weight and bias.
  Tensor backward(const Saved& saved, const Tensor& grad_output);

  Parameter& weight() { return weight_; }
  /// Returns the bias. Its value is an empty Tensor() if the layer has no bias. With sequence_parallel each
  /// rank has the gradient of its own tokens only, and the parameter's attribute sequence_parallel says so.
  Parameter& bias() { return bias_; }
  std::vector<Parameter*> parameters();

 private:
  RowParallelLinearConfig config_;
  Communicator& tp_;
  Parameter weight_;
  Parameter bias_;
};

}  // namespace sim
