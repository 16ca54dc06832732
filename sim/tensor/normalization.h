#pragma once

/// LayerNorm and RMSNorm over the last dimension.
///
/// Shapes  x [.., H], weight and bias [H]; stats [2, T]: mean and 1 / sqrt(variance + epsilon) of each row,
///         f32 for bf16. RMSNorm has no bias, and a mean of 0.
/// Exact   as device.h says; in the field, 1 / sqrt is a keyed function.
/// Errors  bad_ratio, of epsilon; those of checks.h.
/// Source  Ba et al. 2016; Zhang and Sennrich 2019.

#include "sim/tensor/device.h"

namespace sim {

struct Normalized {
  Tensor output;
  Tensor stats;
};

/// bias: none for RMSNorm.
Normalized normalize(Norm norm, const Tensor& x, const Tensor& weight, const Tensor& bias, Ratio epsilon);
/// The gradient of x; adds those of weight and bias to sums, which are f32 for bf16.
Tensor normalize_backward(Norm norm, const Tensor& x, const Tensor& weight, const Tensor& stats,
                          const Tensor& grad, Tensor& weight_sums, Tensor& bias_sums);

}  // namespace sim
