#pragma once

/// Y = X A^T / F, the columns of A (input features) split over the tensor-model-parallel group.
///
/// Shapes  input [T, F/tp] sharded(1);  weight [H, F/tp] this rank's columns;  output [T, H] replicated.
/// Calls   forward: one all_reduce(sum) of [T, H].  backward: none. On one rank none.

#include <sim/parallel/parameter.h>

namespace outside {

class ScaledLinear {
 public:
  ScaledLinear(sim::Rank& rank, sim::DType dtype, std::int64_t features, std::int64_t hidden);

  sim::Tensor forward(const sim::Tensor& input);
  /// The gradient of the input; adds to the weight's.
  sim::Tensor backward(const sim::Tensor& input, const sim::Tensor& grad_output);

  sim::Parameter weight;
  bool forgets_the_sum = false;  // planted, to see what check says of it

 private:
  sim::Communicator& tp_;
  sim::Ratio scale_;
};

}  // namespace outside
