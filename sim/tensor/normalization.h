#pragma once

/// LayerNorm and RMSNorm over the last dimension.
///
/// Shapes  x [.., H], weight and bias [H]; stats [2, T] holds mean and 1 / sqrt(variance + epsilon) of
///         each row, in f32 for bf16. RMSNorm has no bias, and its mean is 0.
/// Exact   as device.h says; in the field, 1 / sqrt is a keyed function.
/// Errors  bad_ratio, for epsilon; those of checks.h.
/// Source  Ba et al. 2016; Zhang and Sennrich 2019.

#include "sim/tensor/device.h"

namespace sim {

struct Normalized {
  Tensor output;
  Tensor stats;
};

/// For RMSNorm, `bias` must be none (Tensor::is_none).
Normalized normalize(Norm norm, const Tensor& x, const Tensor& weight, const Tensor& bias, Ratio epsilon);
/// Returns the gradient of x. Adds the gradients of weight and bias to their sums, which are f32 for
/// bf16.
Tensor normalize_backward(Norm norm, const Tensor& x, const Tensor& weight, const Tensor& stats,
                          const Tensor& grad, Tensor& weight_sums, Tensor& bias_sums);

}  // namespace sim
