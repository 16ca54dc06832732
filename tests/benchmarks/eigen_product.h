#pragma once

/// Eigen's matrix product, to compare with. It is compiled for AVX2 and fma, so the machines that run it must
/// have both.
///
/// Shapes  `a` has rows x terms elements, `b` has terms x columns, each stored row after row, or column after
///         column where it is transposed. `out` has rows x columns, row after row, and is overwritten.

namespace benchmarks {

struct EigenSizes {
  int rows;
  int columns;
  int terms;
  bool a_transposed = false;
  bool b_transposed = false;
};

void eigen_product(const EigenSizes& sizes, const double* a, const double* b, double* out);
void eigen_product(const EigenSizes& sizes, const float* a, const float* b, float* out);

}  // namespace benchmarks
