#pragma once

/// Rotary positions: elements i and i + d/2 of a head at position p are turned by the angle p base^(-2 i /
/// d).
///
/// Shapes  x [S, B, n, d], d even; cosines and sines [S, d/2], of positions first, first + 1, ...
/// Exact   angles in double, their functions rounded to the dtype; backward turns the other way. In the field
///         the two are keyed by the position and the pair.
/// Errors  bad_rotary: an odd head dimension, a position below 0 or beyond 16,777,216; those of checks.h.
/// Source  Su et al. 2021; halves of a head make the pairs, as in Megatron-LM without --rotary-interleaved.

#include "sim/tensor/device.h"

namespace sim {

struct RotaryTables {
  Tensor cosines;
  Tensor sines;
};

RotaryTables rotary_tables(Device& device, DType dtype, std::int64_t first_position, std::int64_t positions,
                           std::int64_t head_dim, std::int64_t base);
Tensor rotate(const Tensor& x, const Tensor& cosines, const Tensor& sines, bool backward);

}  // namespace sim
