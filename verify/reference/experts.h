#pragma once

/// The experts of a mixture on one device, with their gradients: each is an MLP on the tokens that chose it,
/// and the output of a token is the sum over its experts. A probability multiplies the activation, and the
/// bias of the second layer.
///
/// Shapes  x [T, H]; probabilities [T, E], 0 where an expert is not chosen; output [T, H]. The weights of an
///         expert are those of an MLP (mlp.h).

#include <functional>
#include <vector>

#include "verify/reference/mlp.h"

namespace verify::reference {

template <typename Scalar>
class Experts {
 public:
  /// `is_chosen(t, e)` says whether token t goes to expert e.
  Experts(const Number<Scalar>& number, Activation function, bool gated,
          std::vector<MlpWeights<Scalar>> weights, const Matrix<Scalar>& x,
          const Matrix<Scalar>& probabilities,
          const std::function<bool(Eigen::Index, Eigen::Index)>& is_chosen)
      : number_(number),
        function_(function),
        gated_(gated),
        weights_(std::move(weights)),
        x_(x),
        probabilities_(probabilities) {
    experts_.reserve(weights_.size());
    for (Eigen::Index e = 0; e < std::ssize(weights_); ++e) {
      Own own;
      for (Eigen::Index t = 0; t < x.rows(); ++t)
        if (is_chosen(t, e)) own.tokens.push_back(t);
      compute(e, own);
      experts_.push_back(std::move(own));
    }
  }

  Matrix<Scalar> output() const {
    return sum_of_rows([this](std::size_t e) -> const Matrix<Scalar>& { return experts_[e].output; });
  }

  struct Gradients {
    Matrix<Scalar> x;                               // [T, H]
    Matrix<Scalar> probabilities;                   // [T, E]
    std::vector<LinearGradients<Scalar>> fc1, fc2;  // by expert
  };
  Gradients gradients(const Matrix<Scalar>& grad) const {
    Gradients all;
    all.probabilities = zeros<Scalar>(probabilities_.rows(), probabilities_.cols());
    all.fc1.reserve(experts_.size());
    all.fc2.reserve(experts_.size());
    for (std::size_t e = 0; e < experts_.size(); ++e) add_gradients(e, grad, all);
    all.x = sum_of_rows([&](std::size_t e) -> const Matrix<Scalar>& { return all.fc1[e].x; });
    return all;
  }

 private:
  struct Own {
    std::vector<Eigen::Index> tokens;
    Matrix<Scalar> inside, middle, activated, weighted;  // [R, F] or [R, 2 F]
    Matrix<Scalar> output;                               // [R, H]
  };

  Matrix<Scalar> rows_of(const Matrix<Scalar>& m, const Own& own) const {
    Matrix<Scalar> rows(std::ssize(own.tokens), m.cols());
    for (Eigen::Index i = 0; i < rows.rows(); ++i)
      rows.row(i) = m.row(own.tokens[static_cast<std::size_t>(i)]);
    return rows;
  }
  const Scalar& probability(std::size_t e, const Own& own, Eigen::Index row) const {
    return probabilities_(own.tokens[static_cast<std::size_t>(row)], static_cast<Eigen::Index>(e));
  }

  void compute(Eigen::Index expert, Own& own) const {
    const auto e = static_cast<std::size_t>(expert);
    const MlpWeights<Scalar>& w = weights_[e];
    own.inside = linear(number_, rows_of(x_, own), w.fc1_weight, w.fc1_bias);
    own.middle =
        matrix_of(number_, own.inside.rows(), w.fc2_weight.cols(), [&](Eigen::Index t, Eigen::Index f) {
          return number_.activation(function_, false, own.inside(t, f));
        });
    own.activated = gated_ ? times_up(own.middle, own.inside) : own.middle;
    own.weighted = weighted_rows(e, own, own.activated);
    own.output = linear(number_, own.weighted, w.fc2_weight, {});
    if (w.fc2_bias.size() == 0) return;
    own.output =
        matrix_of(number_, own.output.rows(), own.output.cols(), [&](Eigen::Index t, Eigen::Index h) {
          return own.output(t, h) + number_.stored(probability(e, own, t) * w.fc2_bias(0, h));
        });
  }

  Matrix<Scalar> weighted_rows(std::size_t e, const Own& own, const Matrix<Scalar>& m) const {
    return matrix_of(number_, m.rows(), m.cols(),
                     [&](Eigen::Index t, Eigen::Index f) { return m(t, f) * probability(e, own, t); });
  }
  Matrix<Scalar> times_up(const Matrix<Scalar>& m, const Matrix<Scalar>& inside) const {
    return matrix_of(number_, m.rows(), m.cols(),
                     [&](Eigen::Index t, Eigen::Index f) { return m(t, f) * inside(t, m.cols() + f); });
  }

  /// Adds the gradients of an expert to `all`.
  void add_gradients(std::size_t e, const Matrix<Scalar>& grad, Gradients& all) const {
    const Own& own = experts_[e];
    const MlpWeights<Scalar>& w = weights_[e];
    const Matrix<Scalar> grad_rows = rows_of(grad, own);
    auto fc2 = linear_gradients(number_, own.weighted, w.fc2_weight, grad_rows);
    fc2.bias = column_sums(number_, weighted_rows(e, own, grad_rows));
    for (Eigen::Index t = 0; t < grad_rows.rows(); ++t) {
      Sum<Scalar> dot;
      for (Eigen::Index f = 0; f < own.activated.cols(); ++f)
        dot.add_product(fc2.x(t, f), own.activated(t, f));
      if (w.fc2_bias.size() > 0)
        for (Eigen::Index h = 0; h < grad_rows.cols(); ++h)
          dot.add_product(grad_rows(t, h), w.fc2_bias(0, h));
      all.probabilities(own.tokens[static_cast<std::size_t>(t)], static_cast<Eigen::Index>(e)) =
          number_.stored(dot.value_in_parts());
    }
    const Matrix<Scalar> grad_activated = weighted_rows(e, own, fc2.x);
    const Eigen::Index ffn = own.activated.cols();
    const Matrix<Scalar> grad_middle = gated_ ? times_up(grad_activated, own.inside) : grad_activated;
    const Matrix<Scalar> grad_inside =
        matrix_of(number_, own.inside.rows(), own.inside.cols(), [&](Eigen::Index t, Eigen::Index f) {
          if (f >= ffn) return grad_activated(t, f - ffn) * own.middle(t, f - ffn);
          return grad_middle(t, f) * number_.activation(function_, true, own.inside(t, f));
        });
    all.fc1.push_back(linear_gradients(number_, rows_of(x_, own), w.fc1_weight, grad_inside));
    all.fc2.push_back(std::move(fc2));
  }

  /// Returns for each token the sum of its rows over all experts. `rows_of_expert(e)` has those of expert e.
  template <typename RowsOf>
  Matrix<Scalar> sum_of_rows(const RowsOf& rows_of_expert) const {
    const Eigen::Index hidden = x_.cols();
    std::vector<Sum<Scalar>> sums(static_cast<std::size_t>(x_.rows() * hidden));
    for (std::size_t e = 0; e < experts_.size(); ++e) {
      const Matrix<Scalar>& rows = rows_of_expert(e);
      for (Eigen::Index i = 0; i < rows.rows(); ++i) {
        const Eigen::Index token = experts_[e].tokens[static_cast<std::size_t>(i)];
        for (Eigen::Index h = 0; h < hidden; ++h)
          sums[static_cast<std::size_t>(token * hidden + h)].add(rows(i, h));
      }
    }
    return matrix_of(number_, x_.rows(), hidden, [&](Eigen::Index t, Eigen::Index h) {
      return sums[static_cast<std::size_t>(t * hidden + h)].value_in_parts();
    });
  }

  Number<Scalar> number_;
  Activation function_;
  bool gated_;
  std::vector<MlpWeights<Scalar>> weights_;
  Matrix<Scalar> x_, probabilities_;
  std::vector<Own> experts_;
};

}  // namespace verify::reference
