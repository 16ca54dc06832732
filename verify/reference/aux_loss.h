#pragma once

/// The losses that keep experts evenly loaded, on one device, with the gradients that they give the logits of
/// a router: the balance of the load, and the z-loss.
///
/// Shapes  logits, scores and their gradients [T, E]. P(e) is the sum of the scores of expert e over tokens.
///         n(e), a number of tokens of expert e, counts each token with each of the k experts whose scores
///         are the largest of its row.
/// Exact   A score is the softmax over all experts, or a function of a logit divided by the sum over all
///         experts of its token. n(e) has no derivative.
/// Source  Fedus et al. 2021, section 2.2 (balance); Zoph et al. 2022, section 3 (z-loss).

#include "verify/reference/router.h"

namespace verify::reference {

template <typename Scalar>
class BalanceScores {
 public:
  BalanceScores(const Number<Scalar>& number, RouterScore score, std::int64_t topk,
                const Matrix<Scalar>& logits)
      : number_(number),
        score_(score),
        logits_(logits),
        all_scores_(router_scores(number, score, logits)),
        scores_(all_scores_) {
    for (Eigen::Index t = 0; t < logits.rows(); ++t) {
      divide_by_sum(t);
      count(t, topk);
    }
  }

  const Matrix<Scalar>& scores() const { return scores_; }
  /// Whether a token counts for an expert.
  bool is_counted(Eigen::Index t, Eigen::Index e) const {
    const auto& experts = counted_[static_cast<std::size_t>(t)];
    return std::find(experts.begin(), experts.end(), e) != experts.end();
  }
  /// Whether no error can change what is counted.
  bool is_sure() const { return is_sure_; }

  /// Returns the gradient of the logits, from that of the scores.
  Matrix<Scalar> logits_gradient(const Matrix<Scalar>& grad) const {
    if (score_ == RouterScore::softmax)
      return router_scores_gradient(number_, score_, logits_, all_scores_, grad);
    Matrix<Scalar> of_scores(grad.rows(), grad.cols());
    for (Eigen::Index t = 0; t < grad.rows(); ++t) {
      Sum<Scalar> dot;
      for (Eigen::Index e = 0; e < grad.cols(); ++e) dot.add_product(grad(t, e), all_scores_(t, e));
      const Scalar sum = sum_of_row(t);
      const Scalar inverse = routing::inverse_of_sum(number_, sum);
      const Scalar slope =
          number_.stored(number_.stored(dot.value()) * routing::inverse_of_sum_derivative(number_, sum));
      for (Eigen::Index e = 0; e < grad.cols(); ++e)
        of_scores(t, e) = number_.stored(grad(t, e) * inverse + slope);
    }
    return router_scores_gradient(number_, score_, logits_, all_scores_, of_scores);
  }

 private:
  Scalar sum_of_row(Eigen::Index t) const {
    Sum<Scalar> sum;
    for (Eigen::Index e = 0; e < all_scores_.cols(); ++e) sum.add(all_scores_(t, e));
    return number_.stored(sum.value());
  }
  void divide_by_sum(Eigen::Index t) {
    if (score_ == RouterScore::softmax) return;
    const Scalar inverse = routing::inverse_of_sum(number_, sum_of_row(t));
    for (Eigen::Index e = 0; e < scores_.cols(); ++e)
      scores_(t, e) = number_.stored(all_scores_(t, e) * inverse);
  }
  void count(Eigen::Index t, std::int64_t topk) {
    std::vector<Scalar> row;
    std::vector<Eigen::Index> all;
    for (Eigen::Index e = 0; e < scores_.cols(); ++e) {
      row.push_back(scores_(t, e));
      all.push_back(e);
    }
    const ChosenColumns<Scalar> chosen(row, all, topk);
    is_sure_ = is_sure_ && chosen.is_sure;
    counted_.push_back(chosen.columns);
  }

  Number<Scalar> number_;
  RouterScore score_;
  Matrix<Scalar> logits_, all_scores_, scores_;
  std::vector<std::vector<Eigen::Index>> counted_;  // by token
  bool is_sure_ = true;
};

/// A number as a fraction.
struct LossFactor {
  std::int64_t numerator = 1;
  std::int64_t denominator = 1;
};

/// Returns coefficient E / (k N^2) n(e), the derivative of the balance loss by P(e), for a mean of counts
/// n(e) = counted(e) / microbatches over N tokens.
template <typename Scalar>
std::vector<Scalar> balance_slopes(const Number<Scalar>& number, const std::vector<std::int64_t>& counted,
                                   std::int64_t microbatches, std::int64_t tokens, std::int64_t topk,
                                   const LossFactor& coefficient) {
  const auto experts = static_cast<std::int64_t>(counted.size());
  std::vector<Scalar> slopes;
  for (const std::int64_t n : counted) {
    const Scalar factor = number.of(coefficient.numerator * experts, coefficient.denominator * topk);
    const Scalar share = number.of(n, microbatches) * factor;
    slopes.push_back(share * number.of(1, tokens) * number.of(1, tokens));
  }
  return slopes;
}

/// The z-loss of one token is coefficient log(sum over e of exp(logit(e)))^2.
template <typename Scalar>
class ZLoss {
 public:
  ZLoss(const Number<Scalar>& number, const Matrix<Scalar>& logits) : number_(number), logits_(logits) {}

  /// Returns log(sum over e of exp(logit(t, e))).
  Scalar log_sum(Eigen::Index t) const { return number_.stored(number_.log(exp_sum(t)) + shift(t)); }
  /// Returns the gradient of factor times the sum of all tokens' losses.
  Matrix<Scalar> logits_gradient(const Scalar& factor) const {
    Matrix<Scalar> grad(logits_.rows(), logits_.cols());
    for (Eigen::Index t = 0; t < grad.rows(); ++t) {
      const Scalar slope = number_.of(2, 1) * log_sum(t) * factor;
      const Scalar inverse = number_.of(1, 1) / exp_sum(t);
      for (Eigen::Index e = 0; e < grad.cols(); ++e)
        grad(t, e) = number_.stored(number_.exp(logits_(t, e) - shift(t)) * inverse * slope);
    }
    return grad;
  }

 private:
  Scalar shift(Eigen::Index t) const {
    Scalar largest = logits_(t, 0);
    for (Eigen::Index e = 1; e < logits_.cols(); ++e) largest = number_.larger(largest, logits_(t, e));
    return largest;
  }
  Scalar exp_sum(Eigen::Index t) const {
    Sum<Scalar> sum;
    for (Eigen::Index e = 0; e < logits_.cols(); ++e) sum.add(number_.exp(logits_(t, e) - shift(t)));
    return sum.value_in_parts();
  }

  Number<Scalar> number_;
  Matrix<Scalar> logits_;
};

}  // namespace verify::reference
