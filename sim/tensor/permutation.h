#pragma once

/// Dimensions in another order: [S, B, n, d] to [B, n, S, d] is {1, 2, 0, 3}.
///
/// Errors  bad_permutation: not each of four dimensions once; those of checks.h.

#include <array>

#include "sim/tensor/tensor.h"

namespace sim {

/// Dimension i of the result is dimension order[i] of x, which has four.
Tensor permuted(const Tensor& x, std::array<int, 4> order);

}  // namespace sim
