#pragma once

/// Rows that are taken from a matrix and added back to it by their numbers, and factors that multiply whole
/// rows.
///
/// Shapes  x [T, H]; rows [R, H]; factors [R, 1].
/// Exact   Rows are added in the order in which they are given, in f32 for bf16, and rounded once. A product
///         with a factor is rounded once. A dot product adds with one fma for each column, in their order.
/// Errors  those of the operations.

#include <cstdint>
#include <vector>

#include "sim/tensor/tensor.h"

namespace sim {

/// Returns row numbers[i] of x as row i. Numbers are i32 at the device.
Tensor taken_rows(const Tensor& x, const std::vector<std::int64_t>& numbers);
/// Returns a matrix of `count` rows, in which row n is the sum of the rows i with numbers[i] = n.
Tensor added_rows(const Tensor& rows, const std::vector<std::int64_t>& numbers, std::int64_t count);

/// Returns row r of x multiplied by factors(r).
Tensor scaled_rows(const Tensor& x, const Tensor& factors);
/// Returns the dot product of row r of a and row r of b, [R, 1].
Tensor row_dots(const Tensor& a, const Tensor& b);

/// Returns the numbers as a tensor [R] of i32.
Tensor tensor_of_numbers(Device& device, const std::vector<std::int64_t>& numbers);
/// Returns the elements of a tensor of i32.
std::vector<std::int64_t> numbers_of(const Tensor& tensor);

}  // namespace sim
