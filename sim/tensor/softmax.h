#pragma once

/// Softmax of scaled attention scores, row by row.
///
/// Shapes  [.., q, k]. Where causal, query i sees keys j <= i + k - q alone.
/// Exact   as device.h says; in the field under any shift.
/// Errors  bad_divisor: of 0 or less; those of checks.h.

#include <cstdint>

#include "sim/tensor/tensor.h"

namespace sim {

/// softmax(x / sqrt(divisor)); divisor is the head dimension.
Tensor softmax(const Tensor& x, std::int64_t divisor, bool causal);
/// The gradient of x, from what softmax gave.
Tensor softmax_backward(const Tensor& p, const Tensor& grad, std::int64_t divisor);

}  // namespace sim
