#pragma once

/// Softmax of scaled attention scores, row by row.
///
/// Shapes  [.., q, k]. If causal, query i sees only keys j <= i + k - q.
/// Exact   as device.h says; in the field the result does not depend on the shift that is subtracted.
/// Errors  bad_divisor: a divisor below 1 or above 16,777,216; those of checks.h.

#include <cstdint>

#include "sim/tensor/tensor.h"

namespace sim {

/// Returns softmax(x / sqrt(divisor)); `divisor` is the head dimension.
Tensor softmax(const Tensor& x, std::int64_t divisor, bool causal);
/// Returns the gradient of x, from the output p of softmax.
Tensor softmax_backward(const Tensor& p, const Tensor& grad, std::int64_t divisor);

}  // namespace sim
