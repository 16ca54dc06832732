#pragma once

/// out += a b for matrices of any scalar that layers compute in.
///
/// bf16 is the kernel for floats, and its sums are floats: whoever asks rounds them. A level of the field is
/// the kernel for doubles, run on the residues of that level alone, and a reduction for each block of terms:
/// so an element costs as many doubles as it has levels, and a little for taking it apart.
///
/// Shapes  a: (rows, terms), b: (terms, columns), anyhow strided, so a transposed operand is a matter of
///         steps; out: (rows, columns), row after row, apart from both.
/// Exact   out(i, j) starts from its old value and takes k = 0, 1, 2, ... with one fma each: the same bits
///         for any slice, on any machine. In the field the value is exact: no more than kExactProducts
///         products are added up before a reduction (see field_sum.h), and retired levels retire what they
///         are added to.

#include <cstddef>

#include "sim/base/bfloat16.h"
#include "sim/base/field.h"

namespace sim {

/// element(i, j) = first[i * row_step + j * column_step]
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
