#pragma once

/// Rows in another order.
///
/// Shapes  x [R, d]; row i of the result is row order[i] of x.
/// Calls   none.
/// Errors  those of checks.h.
/// Exact   values are moved.
/// Source  none.

#include <cstdint>
#include <vector>

#include "sim/tensor/tensor.h"

namespace sim {

Tensor reordered_rows(const Tensor& x, const std::vector<std::int64_t>& order);

}  // namespace sim
