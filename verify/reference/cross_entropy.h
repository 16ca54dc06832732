#pragma once

/// The cross-entropy loss of each token and its gradient, on one device, computed from the definition:
/// log(sum of exp) minus the logit of the target.
///
/// Shapes  logits [T, V padded]; columns from `vocabulary` on are padding and do not contribute. loss [1, T].
/// Exact   in the field the loss does not depend on the shift (the largest logit, which is subtracted before
///         exp), because log is a homomorphism there.

#include <utility>
#include <vector>

#include "verify/reference/embedding.h"
#include "verify/reference/matrix.h"
#include "verify/reference/rows.h"

namespace verify::reference {

struct CrossEntropySetting {
  std::int64_t vocabulary = 0;
  std::int64_t ignored_id = -1;
  std::int64_t smoothing_numerator = 0;
  std::int64_t smoothing_denominator = 1;
};

template <typename Scalar>
class CrossEntropy {
 public:
  CrossEntropy(const Number<Scalar>& number, Matrix<Scalar> logits, Ids targets,
               const CrossEntropySetting& setting)
      : number_(number),
        logits_(std::move(logits)),
        targets_(std::move(targets)),
        setting_(setting),
        sharp_(number.of(setting.smoothing_denominator - setting.smoothing_numerator,
                         setting.smoothing_denominator)),
        exps_(logits_.rows(), logits_.cols()),
        rows_(targets_.size()) {
    for (Eigen::Index t = 0; t < logits_.rows(); ++t) {
      if (!is_ignored(t)) take_exps(t);
    }
  }

  Matrix<Scalar> loss() const {
    const Scalar s = number_.of(setting_.smoothing_numerator, setting_.smoothing_denominator);
    return matrix_of(number_, 1, logits_.rows(), [&](Eigen::Index, Eigen::Index t) {
      if (is_ignored(t)) return number_.of(0, 1);
      const Scalar log_of_sum = number_.log(row(t).sum);
      const Scalar of_target = log_of_sum - (logits_(t, target(t)) - row(t).shift);
      if (setting_.smoothing_numerator == 0) return of_target;
      Sum<Scalar> shifted;
      add_differences(logits_of(t), setting_.vocabulary, row(t).shift, shifted);
      return sharp_ * of_target +
             s * (log_of_sum - shifted.value_in_parts() * number_.of(1, setting_.vocabulary));
    });
  }

  /// Returns the gradient of the logits; grad [1, T] is the gradient of the losses.
  Matrix<Scalar> gradient(const Matrix<Scalar>& grad) const {
    const Scalar smooth =
        number_.of(setting_.smoothing_numerator, setting_.smoothing_denominator * setting_.vocabulary);
    Matrix<Scalar> result = zeros<Scalar>(logits_.rows(), logits_.cols());
    for (Eigen::Index t = 0; t < logits_.rows(); ++t) {
      if (is_ignored(t)) continue;
      const Scalar inverse = number_.of(1, 1) / row(t).sum;
      const ScaledDifference<Scalar> slope{
          .factor = inverse, .less = smooth, .upstream = grad(0, t), .one = target(t), .less_of_one = sharp_};
      scaled_differences(number_, exps_.data() + t * exps_.cols(), setting_.vocabulary, slope,
                         result.data() + t * result.cols());
    }
    return result;
  }

 private:
  /// The largest logit of a row (the shift), and the sum over the row of exp(logit - shift).
  struct LogSum {
    Scalar shift = {};
    Scalar sum = {};
  };

  void take_exps(Eigen::Index t) {
    const Scalar shift = largest_in_row(number_, logits_of(t), setting_.vocabulary);
    Sum<Scalar> sum;
    exps_of_differences(number_, logits_of(t), setting_.vocabulary, shift, exps_.data() + t * exps_.cols(),
                        sum);
    rows_[static_cast<std::size_t>(t)] = {shift, sum.value_in_parts()};
  }

  const Scalar* logits_of(Eigen::Index t) const { return logits_.data() + t * logits_.cols(); }
  std::int64_t target(Eigen::Index t) const { return targets_[static_cast<std::size_t>(t)]; }
  bool is_ignored(Eigen::Index t) const { return target(t) == setting_.ignored_id; }
  const LogSum& row(Eigen::Index t) const { return rows_[static_cast<std::size_t>(t)]; }

  Number<Scalar> number_;
  Matrix<Scalar> logits_;
  Ids targets_;
  CrossEntropySetting setting_;
  Scalar sharp_;  // 1 - s, where s is the label smoothing
  Matrix<Scalar> exps_;
  std::vector<LogSum> rows_;
};

}  // namespace verify::reference
