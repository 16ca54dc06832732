#pragma once

/// Gives every NaN of a buffer the same bits. The bits of a NaN are no result: a processor keeps those of one
/// operand, and the compiler decides which operand comes first; a GPU returns a NaN of its own from an
/// operation in single precision.
///
/// Shapes  `values` holds elements of the dtype, packed, in the byte order of the machine.
/// Exact   A NaN of f64, f32 or bf16 becomes the quiet NaN with no sign and no payload. Every other bit, and
///         every element of the field and of i32, stays as it is.
/// Source  IEEE 754-2019, 6.2.3 (propagation of payloads is not required).

#include <cstddef>
#include <span>

#include "sim/tensor/dtype.h"

namespace sim {

void make_nans_plain(DType dtype, std::span<std::byte> values);

}  // namespace sim
