#pragma once

/// The matrices that references compute with, and their product. Eigen stores the elements. Sums are taken by
/// Sum (number.h), which knows by how much another order of summation may change the result.
///
/// Shapes  rows are tokens or outputs, and columns are features; a vector is a matrix of one row.

#include <Eigen/Core>

#include "verify/reference/number.h"

namespace verify::reference {

template <typename Scalar>
using Matrix = Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

template <typename Scalar>
Matrix<Scalar> zeros(Eigen::Index rows, Eigen::Index columns) {
  return Matrix<Scalar>::Constant(rows, columns, Scalar{});
}

/// Returns the matrix whose element (i, j) is f(i, j), rounded to what a tensor of the candidate can hold.
template <typename Scalar, typename Element>
Matrix<Scalar> matrix_of(const Number<Scalar>& number, Eigen::Index rows, Eigen::Index columns,
                         const Element& f) {
  Matrix<Scalar> result(rows, columns);
  for (Eigen::Index i = 0; i < rows; ++i) {
    for (Eigen::Index j = 0; j < columns; ++j) result(i, j) = number.stored(f(i, j));
  }
  return result;
}

template <typename Scalar>
Matrix<Scalar> product(const Number<Scalar>& number, const Matrix<Scalar>& a, const Matrix<Scalar>& b) {
  return matrix_of(number, a.rows(), b.cols(), [&](Eigen::Index i, Eigen::Index j) {
    Sum<Scalar> sum;
    for (Eigen::Index k = 0; k < a.cols(); ++k) sum.add_product(a(i, k), b(k, j));
    return sum.value_in_parts();
  });
}

/// Returns the sum over all rows as a matrix of one row.
template <typename Scalar>
Matrix<Scalar> column_sums(const Number<Scalar>& number, const Matrix<Scalar>& x) {
  return matrix_of(number, 1, x.cols(), [&](Eigen::Index, Eigen::Index j) {
    Sum<Scalar> sum;
    for (Eigen::Index i = 0; i < x.rows(); ++i) sum.add(x(i, j));
    return sum.value_in_parts();
  });
}

template <typename Scalar>
Matrix<Scalar> added(const Number<Scalar>& number, const Matrix<Scalar>& a, const Matrix<Scalar>& b) {
  return matrix_of(number, a.rows(), a.cols(),
                   [&](Eigen::Index i, Eigen::Index j) { return a(i, j) + b(i, j); });
}

template <typename Scalar>
Matrix<Scalar> transposed(const Matrix<Scalar>& x) {
  return x.transpose();
}

}  // namespace verify::reference
