#pragma once

/// A linear layer, Y = X A^T + b, and its gradients, on one device.
///
/// Shapes  x [T, H], weight [F, H], bias [1, F] or empty, y [T, F].

#include "verify/reference/matrix.h"

namespace verify::reference {

template <typename Scalar>
Matrix<Scalar> linear(const Number<Scalar>& number, const Matrix<Scalar>& x, const Matrix<Scalar>& weight,
                      const Matrix<Scalar>& bias) {
  Matrix<Scalar> y = product<Scalar>(number, x, transposed(weight));
  if (bias.size() == 0) return y;
  return matrix_of(number, y.rows(), y.cols(),
                   [&](Eigen::Index t, Eigen::Index f) { return y(t, f) + bias(0, f); });
}

template <typename Scalar>
struct LinearGradients {
  Matrix<Scalar> x, weight, bias;
};

template <typename Scalar>
LinearGradients<Scalar> linear_gradients(const Number<Scalar>& number, const Matrix<Scalar>& x,
                                         const Matrix<Scalar>& weight, const Matrix<Scalar>& grad) {
  return {product(number, grad, weight), product<Scalar>(number, transposed(grad), x),
          column_sums(number, grad)};
}

}  // namespace verify::reference
