#pragma once

/// The MLP that all tokens of a mixture of experts go through, on one device, with its gradients. With a
/// gate, row t of its output is multiplied by sigmoid(x(t) g).
///
/// Shapes  x [T, H], gate weight [1, H] or empty; the other weights are those of an MLP (mlp.h).

#include "verify/reference/mlp.h"
#include "verify/reference/router.h"

namespace verify::reference {

template <typename Scalar>
class SharedExperts {
 public:
  SharedExperts(const Number<Scalar>& number, Activation function, bool gated,
                const MlpWeights<Scalar>& weights, const Matrix<Scalar>& gate_weight, const Matrix<Scalar>& x)
      : number_(number), mlp_(number, function, gated, weights, x), x_(x), gate_weight_(gate_weight) {
    if (gate_weight.size() == 0) return;
    gate_input_ = linear<Scalar>(number, x, gate_weight, {});
    gate_ = matrix_of(number, x.rows(), 1, [&](Eigen::Index t, Eigen::Index) {
      return routing::sigmoid(number, gate_input_(t, 0));
    });
  }

  Matrix<Scalar> output() const { return gate_.size() == 0 ? mlp_.output() : scaled(mlp_.output()); }

  struct Gradients {
    Matrix<Scalar> x;
    LinearGradients<Scalar> fc1, fc2;
    Matrix<Scalar> gate_weight;
  };
  Gradients gradients(const Matrix<Scalar>& grad) const {
    const auto of_mlp = mlp_.gradients(gate_.size() == 0 ? grad : scaled(grad));
    Gradients all{of_mlp.x, of_mlp.fc1, of_mlp.fc2, {}};
    if (gate_.size() == 0) return all;
    const Matrix<Scalar> output = mlp_.output();
    const Matrix<Scalar> of_gate_input = matrix_of(number_, x_.rows(), 1, [&](Eigen::Index t, Eigen::Index) {
      Sum<Scalar> dot;
      for (Eigen::Index h = 0; h < output.cols(); ++h) dot.add_product(grad(t, h), output(t, h));
      return number_.stored(dot.value_in_parts()) * routing::sigmoid_derivative(number_, gate_input_(t, 0));
    });
    const auto of_gate = linear_gradients(number_, x_, gate_weight_, of_gate_input);
    all.gate_weight = of_gate.weight;
    all.x = added(number_, all.x, of_gate.x);
    return all;
  }

 private:
  Matrix<Scalar> scaled(const Matrix<Scalar>& m) const {
    return matrix_of(number_, m.rows(), m.cols(),
                     [&](Eigen::Index t, Eigen::Index h) { return m(t, h) * gate_(t, 0); });
  }

  Number<Scalar> number_;
  Mlp<Scalar> mlp_;
  Matrix<Scalar> x_, gate_weight_, gate_input_, gate_;
};

}  // namespace verify::reference
