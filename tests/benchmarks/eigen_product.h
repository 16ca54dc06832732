#pragma once

/// Eigen's matrix product, to compare with. It is compiled for AVX2 and fma, so the machines that run it must
/// have both.
///
/// Shapes  The matrices are square, of the given size, and stored row after row. `out` is overwritten.

namespace benchmarks {

void eigen_product(int size, const double* a, const double* b, double* out);
void eigen_product(int size, const float* a, const float* b, float* out);

}  // namespace benchmarks
