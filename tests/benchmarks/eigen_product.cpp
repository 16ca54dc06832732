#include "tests/benchmarks/eigen_product.h"

#include <Eigen/Core>

namespace benchmarks {

namespace {

template <typename Scalar>
using RowMajor = Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <typename Scalar>
using ColumnMajor = Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic, Eigen::ColMajor>;

template <typename A, typename B, typename Scalar>
void multiply_as(const EigenSizes& sizes, const Scalar* a, const Scalar* b, Scalar* out) {
  Eigen::Map<RowMajor<Scalar>>(out, sizes.rows, sizes.columns).noalias() =
      Eigen::Map<const A>(a, sizes.rows, sizes.terms) * Eigen::Map<const B>(b, sizes.terms, sizes.columns);
}

template <typename Scalar>
void multiply(const EigenSizes& sizes, const Scalar* a, const Scalar* b, Scalar* out) {
  using Rows = RowMajor<Scalar>;
  using Columns = ColumnMajor<Scalar>;
  if (sizes.a_transposed && sizes.b_transposed) return multiply_as<Columns, Columns>(sizes, a, b, out);
  if (sizes.a_transposed) return multiply_as<Columns, Rows>(sizes, a, b, out);
  if (sizes.b_transposed) return multiply_as<Rows, Columns>(sizes, a, b, out);
  multiply_as<Rows, Rows>(sizes, a, b, out);
}

}  // namespace

void eigen_product(const EigenSizes& sizes, const double* a, const double* b, double* out) {
  multiply(sizes, a, b, out);
}
void eigen_product(const EigenSizes& sizes, const float* a, const float* b, float* out) {
  multiply(sizes, a, b, out);
}

}  // namespace benchmarks
