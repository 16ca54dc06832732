#pragma once

/// Operations on rows and on single elements that routing is made of. Each is composed of kernels that every
/// device has: products of matrices, lookup() and add_to_rows(). The products are marked as work on rows
/// (sim/tensor/row_work.h).
///
/// Shapes  x [R, F], factors and dots [R], ids [R, k] of elements of a matrix [R, F], counted row by row.
/// Calls   none.
/// Errors  those of checks.h.
/// Exact   scaled_rows and put_elements round each element once. row_sums and row_dots are chains of fma in
///         the order of the columns, as matmul is; bf16 adds in f32 and rounds once.

#include "sim/tensor/tensor.h"

namespace sim {

/// Returns the sum of each row, as [R].
Tensor row_sums(const Tensor& x);
/// Returns the sum of x(r, f) y(r, f) over f, as [R].
Tensor row_dots(const Tensor& x, const Tensor& y);
/// Returns x(r, f) factors(r).
Tensor scaled_rows(const Tensor& x, const Tensor& factors);
/// Returns factors(r) row(f), as [R, F].
Tensor products_with_row(const Tensor& factors, const Tensor& row);
/// Returns the sum of x(r, f) row(f) over f, as [R].
Tensor dots_with_row(const Tensor& x, const Tensor& row);
/// Returns a tensor [R, F] whose columns are all `values` [R], or one whose rows are all `values` [F].
Tensor repeated_columns(const Tensor& values, std::int64_t columns);
Tensor repeated_rows(const Tensor& values, std::int64_t rows);

/// Returns x where the mask (i32, shaped as x) is not 0, and 0 elsewhere, also where x is NaN.
Tensor masked(const Tensor& mask, const Tensor& x);

/// Returns the elements of x that the ids name, shaped as the ids.
Tensor take_elements(const Tensor& x, const Tensor& ids);
/// Returns a matrix [rows, columns] that has each value at the element that its id names, and 0 elsewhere.
/// Values whose ids are equal are added.
Tensor put_elements(const Tensor& values, const Tensor& ids, std::int64_t rows, std::int64_t columns);

}  // namespace sim
