#include "tests/benchmarks/eigen_product.h"

#include <Eigen/Core>

namespace benchmarks {

namespace {

template <typename Scalar>
void multiply(int size, const Scalar* a, const Scalar* b, Scalar* out) {
  using Matrix = Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  Eigen::Map<Matrix>(out, size, size).noalias() =
      Eigen::Map<const Matrix>(a, size, size) * Eigen::Map<const Matrix>(b, size, size);
}

}  // namespace

void eigen_product(int size, const double* a, const double* b, double* out) { multiply(size, a, b, out); }
void eigen_product(int size, const float* a, const float* b, float* out) { multiply(size, a, b, out); }

}  // namespace benchmarks
