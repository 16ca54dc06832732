#pragma once

/// The router of a mixture of experts on one device: the experts of each token and their probabilities, with
/// gradients.
///
/// Shapes  x [T, H], weight [E, H], expert_bias [1, E] or empty; logits, probabilities and their gradients
///         [T, E]. A probability is 0 where the expert is not chosen.
/// Exact   Experts are chosen by their scores, those with the larger ones first (row_choice.h); of equal
///         scores the lowest expert comes first. With softmax after the choice, the logits are the scores of
///         the choice. Where an error may exchange a chosen expert with another one, is_sure() is false, and
///         nothing that follows from the choice can be judged.
/// Source  Shazeer et al. 2017; Fedus et al. 2021; DeepSeek-AI 2024 (groups, bias, sigmoid).

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "verify/reference/linear.h"
#include "verify/reference/perturbed.h"
#include "verify/reference/row_choice.h"

namespace verify::reference {

enum class RouterScore { softmax, sigmoid, sqrtsoftplus };

struct RouterSetting {
  std::int64_t topk = 1;
  RouterScore score = RouterScore::softmax;
  bool pre_softmax = false;
  std::int64_t scaling_numerator = 1;
  std::int64_t scaling_denominator = 1;
  std::int64_t groups = 0;  // 0: the choice is not limited to groups
  std::int64_t group_topk = 0;
};

namespace routing {

template <typename Scalar>
Scalar sigmoid(const Number<Scalar>& number, const Scalar& x) {
  return number.function("sigmoid", x,
                         [](const auto& n, const auto& y) { return n.of(1, 1) / (n.of(1, 1) + n.exp(-y)); });
}
template <typename Scalar>
Scalar sigmoid_derivative(const Number<Scalar>& number, const Scalar& x) {
  return number.function("sigmoid_derivative", x, [](const auto& n, const auto& y) {
    const auto s = n.of(1, 1) / (n.of(1, 1) + n.exp(-y));
    return s * (n.of(1, 1) - s);
  });
}
/// softplus(x) = log(1 + exp(x)), in a form that does not overflow.
template <typename Number, typename Scalar>
Scalar softplus(const Number& n, const Scalar& x) {
  const Scalar positive = n.larger(x, n.of(0, 1));
  return positive + n.log(n.of(1, 1) + n.exp(x - positive - positive));
}
template <typename Scalar>
Scalar sqrtsoftplus(const Number<Scalar>& number, const Scalar& x) {
  return number.function("sqrtsoftplus", x,
                         [](const auto& n, const auto& y) { return n.sqrt(softplus(n, y)); });
}
template <typename Scalar>
Scalar sqrtsoftplus_derivative(const Number<Scalar>& number, const Scalar& x) {
  return number.function("sqrtsoftplus_derivative", x, [](const auto& n, const auto& y) {
    const auto s = n.of(1, 1) / (n.of(1, 1) + n.exp(-y));
    return s / (n.of(2, 1) * n.sqrt(softplus(n, y)));
  });
}
/// 1 / (x + 10^-20) and its derivative. The smallest term matters only where all scores have vanished.
constexpr double kLeastSum = 0x1.79ca10c924223p-67;
template <typename Scalar>
Scalar inverse_of_sum(const Number<Scalar>& number, const Scalar& x) {
  return number.function("inverse_of_sum", x,
                         [](const auto& n, const auto& y) { return n.of(1, 1) / (y + n.real(kLeastSum)); });
}
template <typename Scalar>
Scalar inverse_of_sum_derivative(const Number<Scalar>& number, const Scalar& x) {
  return number.function("inverse_of_sum_derivative", x, [](const auto& n, const auto& y) {
    const auto inverse = n.of(1, 1) / (y + n.real(kLeastSum));
    return -(inverse * inverse);
  });
}

/// The softmax of some elements of a row. It is that of attention (attention.h) with scores divided by
/// sqrt(1), which in the field is a factor like any other.
template <typename Scalar>
std::vector<Scalar> softmax(const Number<Scalar>& number, std::vector<Scalar> row) {
  const Scalar factor = number.rsqrt(number.of(1, 1));
  for (Scalar& x : row) x = x * factor;
  const Scalar shift = number.softmax_shift(row);
  Sum<Scalar> sum;
  for (Scalar& x : row) {
    x = number.exp(x - shift);
    sum.add(x);
  }
  const Scalar inverse = number.of(1, 1) / sum.value();
  for (Scalar& x : row) x = number.stored(x * inverse);
  return row;
}
/// The gradient of the elements, from their softmax and its gradient.
template <typename Scalar>
std::vector<Scalar> softmax_gradient(const Number<Scalar>& number, const std::vector<Scalar>& p,
                                     const std::vector<Scalar>& grad) {
  const Scalar factor = number.rsqrt(number.of(1, 1));
  Sum<Scalar> mean;
  for (std::size_t i = 0; i < p.size(); ++i) mean.add(p[i] * grad[i]);
  std::vector<Scalar> result;
  for (std::size_t i = 0; i < p.size(); ++i)
    result.push_back(number.stored(p[i] * (grad[i] - mean.value()) * factor));
  return result;
}

}  // namespace routing

/// Scores of all experts, without a choice: softmax over the experts, or a function of each logit.
template <typename Scalar>
Matrix<Scalar> router_scores(const Number<Scalar>& number, RouterScore score, const Matrix<Scalar>& logits) {
  if (score != RouterScore::softmax) {
    return matrix_of(number, logits.rows(), logits.cols(), [&](Eigen::Index t, Eigen::Index e) {
      return score == RouterScore::sigmoid ? routing::sigmoid(number, logits(t, e))
                                           : routing::sqrtsoftplus(number, logits(t, e));
    });
  }
  Matrix<Scalar> scores(logits.rows(), logits.cols());
  for (Eigen::Index t = 0; t < logits.rows(); ++t) {
    const std::vector<Scalar> p = routing::softmax(
        number, std::vector<Scalar>(logits.row(t).data(), logits.row(t).data() + logits.cols()));
    for (Eigen::Index e = 0; e < logits.cols(); ++e) scores(t, e) = p[static_cast<std::size_t>(e)];
  }
  return scores;
}

/// The gradient of the logits from that of router_scores().
template <typename Scalar>
Matrix<Scalar> router_scores_gradient(const Number<Scalar>& number, RouterScore score,
                                      const Matrix<Scalar>& logits, const Matrix<Scalar>& scores,
                                      const Matrix<Scalar>& grad) {
  if (score != RouterScore::softmax) {
    return matrix_of(number, logits.rows(), logits.cols(), [&](Eigen::Index t, Eigen::Index e) {
      return grad(t, e) * (score == RouterScore::sigmoid
                               ? routing::sigmoid_derivative(number, logits(t, e))
                               : routing::sqrtsoftplus_derivative(number, logits(t, e)));
    });
  }
  Matrix<Scalar> result(logits.rows(), logits.cols());
  for (Eigen::Index t = 0; t < logits.rows(); ++t) {
    const auto row = [&](const Matrix<Scalar>& m) {
      return std::vector<Scalar>(m.row(t).data(), m.row(t).data() + m.cols());
    };
    const std::vector<Scalar> of_row = routing::softmax_gradient(number, row(scores), row(grad));
    for (Eigen::Index e = 0; e < logits.cols(); ++e) result(t, e) = of_row[static_cast<std::size_t>(e)];
  }
  return result;
}

/// Whether no error can exchange an element that is chosen with another one. In floats, equal elements may
/// have become equal by rounding, or have been different before.
inline bool is_certain(const sim::Field&, const sim::Field&) { return true; }
/// A perturbed run makes its own choice; the spread of the scores over all runs tells what is certain.
inline bool is_certain(const Perturbed&, const Perturbed&) { return true; }
inline bool is_certain(const Bounded& chosen, const Bounded& other) {
  const double error = chosen.error() + other.error();
  return std::isfinite(chosen.value()) && std::isfinite(other.value()) &&
         chosen.value() - other.value() > error;
}

/// Chooses the `count` largest candidates of a row, the largest first.
template <typename Scalar>
class ChosenColumns {
 public:
  ChosenColumns(const std::vector<Scalar>& row, std::vector<Eigen::Index> candidates, std::int64_t count) {
    const auto of = [&](Eigen::Index column) -> const Scalar& {
      return row[static_cast<std::size_t>(column)];
    };
    std::stable_sort(candidates.begin(), candidates.end(), [&](Eigen::Index a, Eigen::Index b) {
      if (!row_choice::is_number(of(a)) || !row_choice::is_number(of(b)))
        return row_choice::is_number(of(a)) && !row_choice::is_number(of(b));
      return row_choice::is_larger(of(a), of(b));
    });
    const auto kept = static_cast<std::size_t>(std::min<std::int64_t>(count, std::ssize(candidates)));
    columns = {candidates.begin(), candidates.begin() + static_cast<std::ptrdiff_t>(kept)};
    for (const Eigen::Index taken : columns) {
      for (std::size_t i = kept; i < candidates.size(); ++i)
        is_sure = is_sure && is_certain(of(taken), of(candidates[i]));
    }
  }

  std::vector<Eigen::Index> columns;
  bool is_sure = true;
};

/// Chooses the experts of a token from its scores: among all, or among those of the groups whose best experts
/// have the largest sums.
template <typename Scalar>
ChosenColumns<Scalar> chosen_experts(const std::vector<Scalar>& row, const RouterSetting& setting) {
  std::vector<Eigen::Index> all;
  for (Eigen::Index e = 0; e < std::ssize(row); ++e) all.push_back(e);
  if (setting.groups == 0) return {row, all, setting.topk};
  const Eigen::Index size = std::ssize(row) / setting.groups;
  std::vector<Scalar> sums;
  std::vector<Eigen::Index> groups;
  for (Eigen::Index g = 0; g < setting.groups; ++g) {
    const std::vector<Eigen::Index> members(all.begin() + g * size, all.begin() + (g + 1) * size);
    const ChosenColumns<Scalar> best(row, members, setting.topk / setting.group_topk);
    Sum<Scalar> sum;
    for (const Eigen::Index e : best.columns) sum.add(row[static_cast<std::size_t>(e)]);
    sums.push_back(sum.value());
    groups.push_back(g);
  }
  const ChosenColumns<Scalar> kept(sums, groups, setting.group_topk);
  std::vector<Eigen::Index> experts;
  for (const Eigen::Index e : all)
    if (std::find(kept.columns.begin(), kept.columns.end(), e / size) != kept.columns.end())
      experts.push_back(e);
  ChosenColumns<Scalar> chosen(row, experts, setting.topk);
  chosen.is_sure = chosen.is_sure && kept.is_sure;
  return chosen;
}

template <typename Scalar>
class Router {
 public:
  Router(const Number<Scalar>& number, const RouterSetting& setting, const Matrix<Scalar>& weight,
         const Matrix<Scalar>& expert_bias, const Matrix<Scalar>& x)
      : number_(number),
        setting_(setting),
        weight_(weight),
        bias_(expert_bias),
        x_(x),
        logits_(linear<Scalar>(number, x, weight, {})),
        scores_(is_after_choice() ? logits_ : router_scores(number, setting.score, logits_)),
        choice_scores_(scores_),
        probabilities_(zeros<Scalar>(x.rows(), weight.rows())) {
    for (Eigen::Index t = 0; t < x.rows(); ++t) take_row(t);
  }

  const Matrix<Scalar>& logits() const { return logits_; }
  const Matrix<Scalar>& probabilities() const { return probabilities_; }
  /// The scores by which experts are chosen, with the expert bias.
  const Matrix<Scalar>& choice_scores() const { return choice_scores_; }
  /// The experts of a token, those with the largest scores first.
  const std::vector<Eigen::Index>& experts_of(Eigen::Index t) const {
    return chosen_[static_cast<std::size_t>(t)];
  }
  bool is_chosen(Eigen::Index t, Eigen::Index e) const {
    return std::find(experts_of(t).begin(), experts_of(t).end(), e) != experts_of(t).end();
  }
  bool is_sure() const { return is_sure_; }

  struct Gradients {
    Matrix<Scalar> x, weight;
  };
  /// Returns the gradients, from that of the probabilities and, unless it is empty, an additional gradient of
  /// the logits.
  Gradients gradients(const Matrix<Scalar>& grad, const Matrix<Scalar>& additional = {}) const {
    Matrix<Scalar> of_logits = logits_gradient(grad);
    if (additional.size() > 0) {
      of_logits = matrix_of(number_, of_logits.rows(), of_logits.cols(), [&](Eigen::Index t, Eigen::Index e) {
        return of_logits(t, e) + additional(t, e);
      });
    }
    return {product(number_, of_logits, weight_), product<Scalar>(number_, transposed(of_logits), x_)};
  }
  Matrix<Scalar> logits_gradient(const Matrix<Scalar>& grad) const {
    Matrix<Scalar> of_scores = zeros<Scalar>(grad.rows(), grad.cols());
    for (Eigen::Index t = 0; t < grad.rows(); ++t) take_gradient(t, grad, of_scores);
    if (is_after_choice()) return of_scores;
    return router_scores_gradient(number_, setting_.score, logits_, scores_, of_scores);
  }

 private:
  bool is_after_choice() const { return setting_.score == RouterScore::softmax && !setting_.pre_softmax; }
  bool divides_by_sum() const { return setting_.score != RouterScore::softmax && setting_.topk > 1; }
  Scalar scaling() const { return number_.of(setting_.scaling_numerator, setting_.scaling_denominator); }

  std::vector<Scalar> row_of_choice(Eigen::Index t) {
    std::vector<Scalar> row;
    for (Eigen::Index e = 0; e < scores_.cols(); ++e) {
      if (bias_.size() > 0) choice_scores_(t, e) = number_.stored(scores_(t, e) + bias_(0, e));
      row.push_back(choice_scores_(t, e));
    }
    return row;
  }

  void take_row(Eigen::Index t) {
    const std::vector<Scalar> row = row_of_choice(t);
    const ChosenColumns<Scalar> chosen = chosen_experts(row, setting_);
    is_sure_ = is_sure_ && chosen.is_sure;
    chosen_.push_back(chosen.columns);
    std::vector<Scalar> p = taken(scores_, t);
    if (is_after_choice()) p = routing::softmax(number_, p);
    shares_.push_back(p);
    if (divides_by_sum()) {
      const Scalar inverse = routing::inverse_of_sum(number_, sum_of(p));
      for (Scalar& x : p) x = number_.stored(x * inverse);
    }
    for (std::size_t i = 0; i < p.size(); ++i)
      probabilities_(t, chosen.columns[i]) = scaling_is_one() ? p[i] : number_.stored(p[i] * scaling());
  }
  bool scaling_is_one() const { return setting_.scaling_numerator == setting_.scaling_denominator; }

  void take_gradient(Eigen::Index t, const Matrix<Scalar>& grad, Matrix<Scalar>& of_scores) const {
    const std::vector<Scalar>& shares = shares_[static_cast<std::size_t>(t)];
    std::vector<Scalar> g = taken(grad, t);
    if (!scaling_is_one())
      for (Scalar& x : g) x = number_.stored(x * scaling());
    if (is_after_choice()) {
      g = routing::softmax_gradient(number_, shares, g);
    } else if (divides_by_sum()) {
      Sum<Scalar> dot;
      for (std::size_t i = 0; i < g.size(); ++i) dot.add(g[i] * shares[i]);
      const Scalar sum = sum_of(shares);
      const Scalar slope =
          number_.stored(number_.stored(dot.value()) * routing::inverse_of_sum_derivative(number_, sum));
      const Scalar inverse = routing::inverse_of_sum(number_, sum);
      for (Scalar& x : g) x = number_.stored(x * inverse + slope);
    }
    for (std::size_t i = 0; i < g.size(); ++i) of_scores(t, experts_of(t)[i]) = g[i];
  }

  std::vector<Scalar> taken(const Matrix<Scalar>& m, Eigen::Index t) const {
    std::vector<Scalar> values;
    for (const Eigen::Index e : experts_of(t)) values.push_back(m(t, e));
    return values;
  }
  Scalar sum_of(const std::vector<Scalar>& values) const {
    Sum<Scalar> sum;
    for (const Scalar& x : values) sum.add(x);
    return number_.stored(sum.value());
  }

  Number<Scalar> number_;
  RouterSetting setting_;
  Matrix<Scalar> weight_, bias_, x_, logits_, scores_, choice_scores_, probabilities_;
  std::vector<std::vector<Eigen::Index>> chosen_;  // by token
  std::vector<std::vector<Scalar>> shares_;        // of the chosen experts, before division and scaling
  bool is_sure_ = true;
};

}  // namespace verify::reference
