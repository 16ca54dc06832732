#pragma once

/// The matrices that references compute with, and their product. Eigen stores the elements. Sums are taken by
/// Sum (number.h), which knows by how much another order of summation may change the result.
///
/// Shapes  rows are tokens or outputs, and columns are features; a vector is a matrix of one row.

#include <Eigen/Core>
#include <type_traits>

#include "sim/base/vectorised.h"
#include "verify/reference/number.h"

namespace verify::reference {

template <typename Scalar>
using Matrix = Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

template <typename Scalar>
Matrix<Scalar> zeros(Eigen::Index rows, Eigen::Index columns) {
  static_assert(!std::is_trivially_default_constructible_v<Scalar>, "a scalar of references begins as 0");
  return Matrix<Scalar>(rows, columns);
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

/// The product in the field, whose sums are exact in any order: four columns at a time.
template <>
inline Matrix<sim::Field> product(const Number<sim::Field>&, const Matrix<sim::Field>& a,
                                  const Matrix<sim::Field>& b) {
  constexpr Eigen::Index kColumns = 4;
  const Eigen::Index rows = a.rows(), terms = a.cols(), columns = b.cols();
  Matrix<sim::Field> result(rows, columns);
  sim::vectorised([&] {
    for (Eigen::Index i = 0; i < rows; ++i) {
      const sim::Field* left = a.data() + i * terms;
      Eigen::Index j = 0;
      for (; j + kColumns <= columns; j += kColumns) {
        sim::FieldSum sums[kColumns];
        for (Eigen::Index k = 0; k < terms; ++k) {
          const sim::Field* right = b.data() + k * columns + j;
#pragma GCC unroll 4
          for (Eigen::Index c = 0; c < kColumns; ++c) sums[c].add_product(left[k], right[c]);
        }
        for (Eigen::Index c = 0; c < kColumns; ++c) result(i, j + c) = sums[c].value();
      }
      for (; j < columns; ++j) {
        sim::FieldSum sum;
        for (Eigen::Index k = 0; k < terms; ++k) sum.add_product(left[k], b.data()[k * columns + j]);
        result(i, j) = sum.value();
      }
    }
  });
  return result;
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
