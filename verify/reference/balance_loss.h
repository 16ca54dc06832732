#pragma once

/// A loss that keeps experts evenly loaded, on one device: the scores by which it is taken, and its value and
/// derivative for given tokens.
///
///   loss = coefficient E / (k N^2) sum over e of P(e) n(e)
///
/// Shapes  logits, scores and their gradients [T, E]. n(e) are the tokens that have expert e among their k
///         largest scores, N all tokens, and P(e) the sum of the scores of expert e.
/// Exact   Scores are a softmax over the experts, or another function divided by its sum over the experts.
///         Experts are counted by these scores alone: groups, a bias and a capacity have no say. Where an
///         error may exchange two experts, is_sure() is false.
/// Source  Fedus et al. 2021, section 2.2.

#include <vector>

#include "verify/reference/router.h"

namespace verify::reference {

template <typename Scalar>
class BalanceScores {
 public:
  BalanceScores(const Number<Scalar>& number, RouterScore score, const Matrix<Scalar>& logits,
                std::int64_t topk)
      : number_(number),
        score_(score),
        logits_(logits),
        values_(router_scores(number, score, logits)),
        scores_(values_) {
    std::vector<Eigen::Index> experts;
    for (Eigen::Index e = 0; e < logits.cols(); ++e) experts.push_back(e);
    for (Eigen::Index t = 0; t < logits.rows(); ++t) {
      if (score != RouterScore::softmax) {
        sums_.push_back(sum_of_row(t));
        const Scalar inverse = routing::inverse_of_sum(number, sums_.back());
        for (const Eigen::Index e : experts) scores_(t, e) = number.stored(values_(t, e) * inverse);
      }
      const std::vector<Scalar> row(scores_.row(t).data(), scores_.row(t).data() + scores_.cols());
      const ChosenColumns<Scalar> chosen(row, experts, topk);
      is_sure_ = is_sure_ && chosen.is_sure;
      chosen_.push_back(chosen.columns);
    }
  }

  const Matrix<Scalar>& scores() const { return scores_; }
  const std::vector<Eigen::Index>& experts_of(Eigen::Index t) const {
    return chosen_[static_cast<std::size_t>(t)];
  }
  bool is_sure() const { return is_sure_; }

  /// Returns the gradient of the logits from that of the scores.
  Matrix<Scalar> gradient(const Matrix<Scalar>& grad) const {
    if (score_ == RouterScore::softmax)
      return router_scores_gradient(number_, score_, logits_, values_, grad);
    Matrix<Scalar> of_values = grad;
    for (Eigen::Index t = 0; t < grad.rows(); ++t) {
      // The score of expert e is x(e) f(sum of x), where f is the inverse.
      const Scalar& sum = sums_[static_cast<std::size_t>(t)];
      const Scalar inverse = routing::inverse_of_sum(number_, sum);
      Sum<Scalar> dot;
      for (Eigen::Index e = 0; e < grad.cols(); ++e) dot.add_product(grad(t, e), values_(t, e));
      const Scalar slope =
          number_.stored(number_.stored(dot.value()) * routing::inverse_of_sum_derivative(number_, sum));
      for (Eigen::Index e = 0; e < grad.cols(); ++e)
        of_values(t, e) = number_.stored(grad(t, e) * inverse + slope);
    }
    return router_scores_gradient(number_, score_, logits_, values_, of_values);
  }

 private:
  Scalar sum_of_row(Eigen::Index t) const {
    Sum<Scalar> sum;
    for (Eigen::Index e = 0; e < values_.cols(); ++e) sum.add(values_(t, e));
    return number_.stored(sum.value());
  }

  Number<Scalar> number_;
  RouterScore score_;
  Matrix<Scalar> logits_, values_, scores_;
  std::vector<Scalar> sums_;  // of the rows of values, where scores are divided by them
  std::vector<std::vector<Eigen::Index>> chosen_;
  bool is_sure_ = true;
};

}  // namespace verify::reference
