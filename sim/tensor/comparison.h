#pragma once

/// Comparisons, the choice between two tensors by a mask, and the largest element of a row with its column.
/// With these, and lookup() in an identity matrix for one-hot rows, a router chooses its experts:
///
///   const Tensor first = argmax(scores);                          // [T]
///   const Tensor is_first = lookup(identity, first, 0);           // [T, E], 1 at the expert chosen
///   const Tensor rest = select(compare(Comparison::equal, is_first, ones), lowest, scores);
///   const Tensor second = argmax(rest);
///
/// A mask holds 1 or 0 in i32. cast() turns it into a factor of any dtype. combine() joins two masks: product
/// is "and", max is "or".
///
/// Shapes  compare and select: any, all tensors alike. row_max and argmax: the last dimension is a row, and
///         the dimensions before it are counted together as the number of rows T, as in rows.h.
/// Exact   In floats a comparison with a NaN is false, and -0 equals +0. row_max and argmax ignore NaN. Of
///         equal elements argmax takes the lowest column. No element is rounded.
///         The field has no order. The arbitrary one of max() (sim/base/field.h), which all ranks and
///         references share, stands in for it.
/// Errors  those of checks.h.

#include "sim/tensor/kernel_parameters.h"
#include "sim/tensor/tensor.h"

namespace sim {

/// Returns a mask: 1 where a(i) is less than b(i), equal to it, or greater.
Tensor compare(Comparison comparison, const Tensor& a, const Tensor& b);
/// Returns a(i) where mask(i) is not 0, and b(i) elsewhere. a and b have one dtype, which may be i32.
Tensor select(const Tensor& mask, const Tensor& a, const Tensor& b);

/// Returns the largest element of each row, as [T]; f32 if x is bf16. It is -infinity where a row has no
/// number, in the field 0.
Tensor row_max(const Tensor& x);
/// Returns the column of the largest element of each row, as [T] of i32, and -1 where a row has no number.
Tensor argmax(const Tensor& x);

}  // namespace sim
