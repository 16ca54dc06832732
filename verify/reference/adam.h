#pragma once

/// Adam and AdamW on a whole parameter on one device, and gradient clipping by the global norm.
///
/// Shapes  any shape, the same for the main parameter, its moments and its gradient. None of them is
///         rounded to the dtype of the parameter.
/// Source  Kingma and Ba 2015; Loshchilov and Hutter 2019; Pascanu et al. 2013 (clipping by the norm).

#include <vector>

#include "verify/reference/fraction.h"
#include "verify/reference/matrix.h"

namespace verify::reference {

struct AdamSetting {
  Fraction learning_rate, beta1, beta2, epsilon, weight_decay;
  bool decoupled = true;
  std::int64_t step = 1;
};

template <typename Scalar>
struct AdamState {
  Matrix<Scalar> main, exp_avg, exp_avg_sq;
};

/// Returns 1 - beta^step.
template <typename Scalar>
Scalar bias_correction(const Number<Scalar>& number, Fraction beta, std::int64_t step) {
  Scalar power = number.of(1, 1);
  for (std::int64_t i = 0; i < step; ++i) power = power * number.of(beta.numerator, beta.denominator);
  return number.of(1, 1) - power;
}

template <typename Scalar>
void adam(const Number<Scalar>& number, const AdamSetting& setting, const Matrix<Scalar>& grad,
          AdamState<Scalar>& state) {
  const auto of = [&](Fraction f) { return number.of(f.numerator, f.denominator); };
  const auto rest_of = [&](Fraction f) { return number.of(f.denominator - f.numerator, f.denominator); };
  const Scalar beta1 = of(setting.beta1), rest1 = rest_of(setting.beta1);
  const Scalar beta2 = of(setting.beta2), rest2 = rest_of(setting.beta2);
  const Scalar rate = of(setting.learning_rate), epsilon = of(setting.epsilon);
  const Scalar decay = of(setting.weight_decay);
  const Scalar c1 = bias_correction(number, setting.beta1, setting.step);
  const Scalar c2 = bias_correction(number, setting.beta2, setting.step);
  const bool decays = setting.weight_decay.numerator != 0;
  for (Eigen::Index i = 0; i < grad.size(); ++i) {
    Scalar& p = state.main.data()[i];
    Scalar& m = state.exp_avg.data()[i];
    Scalar& v = state.exp_avg_sq.data()[i];
    Scalar g = grad.data()[i];
    if (decays && !setting.decoupled) g = g + decay * p;
    m = beta1 * m + rest1 * g;
    v = beta2 * v + rest2 * g * g;
    Scalar update = (m / c1) / (number.sqrt(v / c2) + epsilon);
    if (decays && setting.decoupled) update = update + decay * p;
    p = p - rate * update;
  }
}

/// Returns the factor by which all gradients are multiplied so that their global norm is at most `most`.
template <typename Scalar>
Scalar clip_factor(const Number<Scalar>& number, const std::vector<Matrix<Scalar>>& grads, Fraction most) {
  Sum<Scalar> sum;
  for (const Matrix<Scalar>& grad : grads) {
    for (Eigen::Index i = 0; i < grad.size(); ++i) sum.add_product(grad.data()[i], grad.data()[i]);
  }
  const Scalar norm = number.sqrt(sum.value());
  return number.clipped(number.of(most.numerator, most.denominator) / (norm + number.of(1, 1'000'000)));
}

}  // namespace verify::reference
