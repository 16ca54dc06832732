#pragma once

/// The MLP of a transformer layer and its gradients, on one device. In a gated MLP, the first half of fc1's
/// output is the gate and the second half is the up projection.
///
/// Shapes  x [T, H]; fc1 weight [F, H], or [2 F, H] if gated; fc2 weight [H, F]; a bias has one row, or is
///         empty.

#include "verify/reference/linear.h"

namespace verify::reference {

template <typename Scalar>
struct MlpWeights {
  Matrix<Scalar> fc1_weight, fc1_bias, fc2_weight, fc2_bias;
};

template <typename Scalar>
class Mlp {
 public:
  Mlp(const Number<Scalar>& number, Activation function, bool gated, const MlpWeights<Scalar>& weights,
      const Matrix<Scalar>& x)
      : number_(number),
        function_(function),
        gated_(gated),
        weights_(weights),
        x_(x),
        inside_(linear(number, x, weights.fc1_weight, weights.fc1_bias)) {
    const Eigen::Index ffn = weights.fc2_weight.cols();
    activated_ = matrix_of(number, x.rows(), ffn, [&](Eigen::Index t, Eigen::Index f) {
      return number.activation(function, false, inside_(t, f));
    });
    middle_ = gated ? times_up(activated_) : activated_;
  }

  const Matrix<Scalar>& fc1_output() const { return inside_; }
  const Matrix<Scalar>& fc2_input() const { return middle_; }
  Matrix<Scalar> output() const { return linear(number_, middle_, weights_.fc2_weight, weights_.fc2_bias); }

  struct Gradients {
    Matrix<Scalar> x;
    LinearGradients<Scalar> fc1, fc2;
  };
  Gradients gradients(const Matrix<Scalar>& grad) const {
    const auto fc2 = linear_gradients(number_, middle_, weights_.fc2_weight, grad);
    const Eigen::Index ffn = middle_.cols();
    const Matrix<Scalar> grad_activated = gated_ ? times_up(fc2.x) : fc2.x;
    const Matrix<Scalar> grad_inside =
        matrix_of(number_, inside_.rows(), inside_.cols(), [&](Eigen::Index t, Eigen::Index f) {
          if (f >= ffn) return fc2.x(t, f - ffn) * activated_(t, f - ffn);
          return grad_activated(t, f) * number_.activation(function_, true, inside_(t, f));
        });
    const auto fc1 = linear_gradients(number_, x_, weights_.fc1_weight, grad_inside);
    return {fc1.x, fc1, fc2};
  }

 private:
  Matrix<Scalar> times_up(const Matrix<Scalar>& m) const {
    return matrix_of(number_, m.rows(), m.cols(),
                     [&](Eigen::Index t, Eigen::Index f) { return m(t, f) * inside_(t, m.cols() + f); });
  }

  Number<Scalar> number_;
  Activation function_;
  bool gated_;
  MlpWeights<Scalar> weights_;
  Matrix<Scalar> x_, inside_, activated_, middle_;
};

}  // namespace verify::reference
