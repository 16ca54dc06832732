#pragma once

/// A linear layer without a bias, Y = X A^T, whose weight every tensor-parallel rank has whole. With sequence
/// parallelism each rank multiplies its own tokens, so it has the weight's gradient of these tokens only, and
/// the weight is flagged for that (sequence_parallel_grads.h).
///
/// Shapes  input [T, H], output [T, F], weight [F, H]; T/tp tokens with sequence_parallel.
/// Calls   none.
/// Exact   Each token has the bits of the serial layer.
/// Source  Megatron-LM, TELinear with the parallel mode "duplicated".

#include <string>

#include "sim/parallel/parameter.h"

namespace sim {

struct DuplicatedLinearConfig {
  std::string name;
  DType dtype = DType::f32;
  std::int64_t input_size = 0;   // H
  std::int64_t output_size = 0;  // F
  bool sequence_parallel = false;
  Initial initial = {};
};

class DuplicatedLinear {
 public:
  DuplicatedLinear(Rank& rank, const DuplicatedLinearConfig& config);

  struct Saved {
    Tensor input;
  };
  struct Forward {
    Tensor output;
    Saved saved;
  };
  Forward forward(const Tensor& input) const;
  /// Returns the gradient of the input, and adds to main_grad of the weight.
  Tensor backward(const Saved& saved, const Tensor& grad_output);

  Parameter& weight() { return weight_; }
  std::vector<Parameter*> parameters() { return {&weight_}; }

 private:
  Parameter weight_;
};

}  // namespace sim
