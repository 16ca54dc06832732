#pragma once

/// Reorders dimensions: {1, 2, 0, 3} turns [S, B, n, d] into [B, n, S, d].
///
/// Errors  bad_permutation: the order does not name each of four dimensions once; those of checks.h.

#include <array>

#include "sim/tensor/tensor.h"

namespace sim {

/// Dimension i of the result is dimension order[i] of x, which has four.
Tensor permuted(const Tensor& x, std::array<int, 4> order);

}  // namespace sim
