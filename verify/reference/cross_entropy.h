#pragma once

/// The cross-entropy of each token and its gradient, on one device, by the definition: log(sum of exp) less the target's logit.
///
/// Shapes  logits [T, V padded]; columns from `vocabulary` on are padding, and have no part. loss [1, T].
/// Exact   in the field it does not depend on the shift, because log is a homomorphism there.

#include "verify/reference/embedding.h"
#include "verify/reference/matrix.h"

namespace verify::reference {

struct CrossEntropySetting {
  std::int64_t vocabulary = 0;
  std::int64_t ignored_id = -1;
  std::int64_t smoothing_numerator = 0;
  std::int64_t smoothing_denominator = 1;
};

/// A row's largest logit, and the sum of the exponentials of all less that.
template <typename Scalar>
struct LogSum {
  Scalar shift;
  Scalar sum;
};

template <typename Scalar>
LogSum<Scalar> log_sum(const Number<Scalar>& number, const Matrix<Scalar>& logits, Eigen::Index t,
                       const CrossEntropySetting& setting) {
  Scalar shift = logits(t, 0);
  for (Eigen::Index v = 1; v < setting.vocabulary; ++v) shift = number.larger(shift, logits(t, v));
  Sum<Scalar> sum;
  for (Eigen::Index v = 0; v < setting.vocabulary; ++v) sum.add(number.exp(logits(t, v) - shift));
  return {shift, sum.value_in_parts()};
}

template <typename Scalar>
Matrix<Scalar> cross_entropy(const Number<Scalar>& number, const Matrix<Scalar>& logits, const Ids& targets,
                             const CrossEntropySetting& setting) {
  const Scalar s = number.of(setting.smoothing_numerator, setting.smoothing_denominator);
  const Scalar sharp =
      number.of(setting.smoothing_denominator - setting.smoothing_numerator, setting.smoothing_denominator);
  return matrix_of(number, 1, logits.rows(), [&](Eigen::Index, Eigen::Index t) {
    const std::int64_t target = targets[static_cast<std::size_t>(t)];
    if (target == setting.ignored_id) return number.of(0, 1);
    const LogSum<Scalar> row = log_sum(number, logits, t, setting);
    const Scalar log_of_sum = number.log(row.sum);
    const Scalar of_target = log_of_sum - (logits(t, target) - row.shift);
    if (setting.smoothing_numerator == 0) return of_target;
    Sum<Scalar> shifted;
    for (Eigen::Index v = 0; v < setting.vocabulary; ++v) shifted.add(logits(t, v) - row.shift);
    return sharp * of_target + s * (log_of_sum - shifted.value_in_parts() * number.of(1, setting.vocabulary));
  });
}

/// grad [1, T] is that of the losses.
template <typename Scalar>
Matrix<Scalar> cross_entropy_gradient(const Number<Scalar>& number, const Matrix<Scalar>& logits,
                                      const Ids& targets, const Matrix<Scalar>& grad,
                                      const CrossEntropySetting& setting) {
  const Scalar sharp =
      number.of(setting.smoothing_denominator - setting.smoothing_numerator, setting.smoothing_denominator);
  const Scalar smooth =
      number.of(setting.smoothing_numerator, setting.smoothing_denominator * setting.vocabulary);
  Matrix<Scalar> result = zeros<Scalar>(logits.rows(), logits.cols());
  for (Eigen::Index t = 0; t < logits.rows(); ++t) {
    const std::int64_t target = targets[static_cast<std::size_t>(t)];
    if (target == setting.ignored_id) continue;
    const LogSum<Scalar> row = log_sum(number, logits, t, setting);
    const Scalar inverse = number.of(1, 1) / row.sum;
    for (Eigen::Index v = 0; v < setting.vocabulary; ++v) {
      Scalar slope = number.exp(logits(t, v) - row.shift) * inverse - smooth;
      if (v == target) slope = slope - sharp;
      result(t, v) = number.stored(slope * grad(0, t));
    }
  }
  return result;
}

}  // namespace verify::reference
