#pragma once

/// Eigen's matrix product, to compare with: compiled for AVX2 and fma, which machines that run it have to
/// have.
///
/// Shapes  square, of that size, row after row; out is overwritten.

namespace benchmarks {

void eigen_product(int size, const double* a, const double* b, double* out);
void eigen_product(int size, const float* a, const float* b, float* out);

}  // namespace benchmarks
