#pragma once

/// out += a b for matrices of any scalar that layers compute in.
///
/// For bf16 the kernel of floats runs, and its sums are floats, which the caller rounds. For the field,
/// the kernel of doubles runs on the residues of each level alone, and reduces after each block of terms.
/// So a field element costs as much as one double per level, and a little more for splitting it into
/// levels.
///
/// Large operands are packed into panels first. A thread keeps its panels, of up to 1.2 MiB for each dtype,
/// from one product to the next.
///
/// Shapes  a: (rows, terms) and b: (terms, columns), with any strides, so a transposed operand only has
///         other strides; out: (rows, columns), row-major, and apart from both.
/// Exact   out(i, j) starts from its old value and takes k = 0, 1, 2, ... with one fma each: the same
///         bits for any slice, on any machine. In the field the value is exact: at most kExactProducts
///         products are added before a reduction (see field_sum.h), and a retired level of a term is
///         retired in the sum.

#include <cstddef>

#include "sim/base/bfloat16.h"
#include "sim/base/field.h"

namespace sim {

/// A matrix with any strides: element(i, j) is first[i * row_step + j * column_step].
template <typename Scalar>
struct Strided {
  const Scalar* first;
  std::size_t row_step;
  std::size_t column_step;
};

struct ProductSizes {
  std::size_t rows;
  std::size_t columns;
  std::size_t terms;
};

void add_matrix_product(ProductSizes sizes, Strided<double> a, Strided<double> b, double* out);
void add_matrix_product(ProductSizes sizes, Strided<float> a, Strided<float> b, float* out);
void add_matrix_product(ProductSizes sizes, Strided<bfloat16> a, Strided<bfloat16> b, float* out);
void add_matrix_product(ProductSizes sizes, Strided<Field> a, Strided<Field> b, Field* out);

}  // namespace sim
