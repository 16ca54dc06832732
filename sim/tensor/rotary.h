#pragma once

/// Rotary position embedding: elements i and i + d/2 of a head at position p are rotated by the angle p
/// base^(-2 i / d).
///
/// Shapes  x [S, B, n, d] with d even; cosines and sines [S, d/2], for positions first, first + 1, ...
/// Exact   angles are computed in double, and their cosines and sines rounded to the dtype. backward
///         rotates the other way. In the field, cosines and sines are random elements keyed by the
///         position and the pair.
/// Errors  bad_rotary: an odd head dimension or one below 2, a position below 0 or beyond 16,777,216, or
///         a base outside of 1 to 2^40; those of checks.h.
/// Source  Su et al. 2021; the two halves of a head form the pairs, as in Megatron-LM without
///         --rotary-interleaved.

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
