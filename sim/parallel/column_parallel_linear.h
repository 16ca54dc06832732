#pragma once

/// A linear layer Y = X A^T + b whose weight A is split by rows (output features) over the
/// tensor-model-parallel group.
///
/// Shapes  input [T, H] replicated, or [T/tp, H] with sequence_parallel;  weight [F/tp, H] and bias [F/tp]:
///         this rank's rows; output [T, F/tp] sharded(1), or [T, F] replicated with gather_output. With
///         stride s, the F/tp rows of a rank are s blocks (parameter.h): a gated MLP keeps its two matrices,
///         gate and up, in one weight with stride 2.
/// Calls   forward: none; all_gather of [T/tp, H] with sequence_parallel; all_gather of [T, F/tp] with
///         gather_output. backward: one all_reduce(sum) of [T, H], started before the weight gradient and
///         waited for after it. With sequence_parallel: all_gather of the input again, and reduce_scatter of
///         [T, H] in place of the all_reduce.
/// Errors  partition, when F is not a multiple of tp times stride; layer_config, when the output of a
///         sequence-parallel layer is to be gathered, or a shared weight has another shape, dtype or
///         partition; those of the operations.
/// Exact   forward equals the serial layer bit for bit. grad_input differs from the serial one only in the
///         order in which the partial sums of the tp ranks are added.
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
  bool skip_bias_add = false;  // the caller adds the bias, and computes its gradient
  bool sequence_parallel = false;
  int stride = 1;
  Initial initial = {};
};

class ColumnParallelLinear {
 public:
  /// `shared_weight` is the weight of another layer, [F/tp, H]: an output layer shares the embedding's weight
  /// in this way. If it is null, the layer makes its own weight.
  ColumnParallelLinear(Rank& rank, ColumnParallelLinearConfig config, Parameter* shared_weight = nullptr);

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

  Parameter& weight() { return shared_weight_ != nullptr ? *shared_weight_ : weight_; }
  /// Returns the bias. Its value is an empty Tensor() if the layer has no bias.
  Parameter& bias() { return bias_; }
  /// Returns the parameters that this layer made itself; a shared weight is not among them.
  std::vector<Parameter*> parameters();

 private:
  ColumnParallelLinearConfig config_;
  Communicator& tp_;
  Parameter* shared_weight_;
  Parameter weight_;
  Parameter bias_;
};

}  // namespace sim
