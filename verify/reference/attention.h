#pragma once

/// Softmax attention of one head with its gradients, and rotary position embeddings, on one device.
///
/// Shapes  q [Q, d], k and v [K, d]. Scores are divided by sqrt(d). With a causal mask, query i sees the
///         keys j <= i + K - Q, and with a window the last of them and so many before it. dropout [Q, K] has
///         the factor of each probability, 0 or 1 / (1 - p); an empty matrix means no dropout.
/// Exact   `merges` is the number of times that a candidate merges sums over some keys of a row with those
///         over others, as ranks of a ring do. It has not all keys of a row at once: the sum over them of
///         probability times gradient, which the gradient of the scores needs, it takes as that of gradient
///         times output, whose elements are rounded to the dtype of the tensors.
/// Source  Vaswani et al. 2017; Su et al. 2021 (a rotated pair has one element in each half of a head).

#include <algorithm>
#include <utility>
#include <vector>

#include "verify/reference/matrix.h"

namespace verify::reference {

template <typename Scalar>
Matrix<Scalar> dropped(const Number<Scalar>& number, const Matrix<Scalar>& x, const Matrix<Scalar>& dropout) {
  if (dropout.size() == 0) return x;
  return matrix_of(number, x.rows(), x.cols(),
                   [&](Eigen::Index i, Eigen::Index j) { return x(i, j) * dropout(i, j); });
}

/// Returns a probability of a candidate that merges. A merge multiplies numerator and denominator by an
/// exponential, of 4 roundings, and adds, in two roundings: 12 for both. The quotient is rounded twice more
/// than a probability is.
template <typename Scalar>
Scalar merged(const Scalar& probability, int) {
  return probability;
}
inline Bounded merged(const Bounded& x, int merges) {
  return Bounded::rounded(x.value(), x.error(), merges == 0 ? 0 : 12.0 * merges + 2, x.rounding());
}

/// Which keys a query sees.
struct Sight {
  bool causal = false;
  std::int64_t window = -1;  // of a causal mask; -1: all keys up to the query's own
};

template <typename Scalar>
struct Attention {
  Matrix<Scalar> probabilities;  // [Q, K]
  Matrix<Scalar> output;         // [Q, d]
};

template <typename Scalar>
Matrix<Scalar> attention_probabilities(const Number<Scalar>& number, const Matrix<Scalar>& q,
                                       const Matrix<Scalar>& k, Sight sight, int merges) {
  const Matrix<Scalar> scores = product<Scalar>(number, q, transposed(k));
  const Scalar factor = number.rsqrt(number.of(q.cols(), 1));
  Matrix<Scalar> p = zeros<Scalar>(q.rows(), k.rows());
  for (Eigen::Index i = 0; i < q.rows(); ++i) {
    const Eigen::Index own = i + k.rows() - q.rows();
    const Eigen::Index end = sight.causal ? own + 1 : k.rows();
    const bool has_window = sight.causal && sight.window >= 0;
    const Eigen::Index begin = has_window ? std::max<Eigen::Index>(0, own - sight.window) : 0;
    std::vector<Scalar> scaled;
    scaled.reserve(static_cast<std::size_t>(end - begin));
    for (Eigen::Index j = begin; j < end; ++j) scaled.push_back(scores(i, j) * factor);
    const Scalar shift = number.softmax_shift(scaled);
    Sum<Scalar> sum;
    for (Scalar& score : scaled) {
      score = number.exp(score - shift);
      sum.add(score);
    }
    const Scalar inverse = number.of(1, 1) / sum.value();
    for (Eigen::Index j = begin; j < end; ++j)
      p(i, j) = merged(number.stored(scaled[static_cast<std::size_t>(j - begin)] * inverse), merges);
  }
  return p;
}

template <typename Scalar>
Attention<Scalar> attention(const Number<Scalar>& number, const Matrix<Scalar>& q, const Matrix<Scalar>& k,
                            const Matrix<Scalar>& v, Sight sight, const Matrix<Scalar>& dropout = {},
                            int merges = 0) {
  Matrix<Scalar> p = attention_probabilities(number, q, k, sight, merges);
  Matrix<Scalar> output = product(number, dropped(number, p, dropout), v);
  return {std::move(p), std::move(output)};
}

template <typename Scalar>
struct AttentionGradients {
  Matrix<Scalar> q, k, v;
};

/// Returns the gradient of the products of queries and keys, [Q, K], from that of the output, [Q, d], and
/// that of the probabilities, [Q, K].
template <typename Scalar>
Matrix<Scalar> score_gradients(const Number<Scalar>& number, const Attention<Scalar>& forward,
                               const Matrix<Scalar>& grad, const Matrix<Scalar>& grad_p,
                               std::int64_t channels, int merges) {
  const Matrix<Scalar>& p = forward.probabilities;
  const Scalar factor = number.rsqrt(number.of(channels, 1));
  Matrix<Scalar> scores(p.rows(), p.cols());
  for (Eigen::Index i = 0; i < p.rows(); ++i) {
    Sum<Scalar> sum;
    for (Eigen::Index j = 0; j < p.cols() && merges == 0; ++j) sum.add_product(p(i, j), grad_p(i, j));
    for (Eigen::Index f = 0; f < grad.cols() && merges > 0; ++f)
      sum.add_product(grad(i, f), forward.output(i, f));
    const Scalar mean = sum.value();
    for (Eigen::Index j = 0; j < p.cols(); ++j)
      scores(i, j) = number.stored(p(i, j) * (grad_p(i, j) - mean) * factor);
  }
  return scores;
}

template <typename Scalar>
AttentionGradients<Scalar> attention_gradients(const Number<Scalar>& number, const Matrix<Scalar>& q,
                                               const Matrix<Scalar>& k, const Matrix<Scalar>& v,
                                               const Attention<Scalar>& forward, const Matrix<Scalar>& grad,
                                               const Matrix<Scalar>& dropout = {}, int merges = 0) {
  const Matrix<Scalar> grad_p = dropped(number, product<Scalar>(number, grad, transposed(v)), dropout);
  const Matrix<Scalar> scores = score_gradients(number, forward, grad, grad_p, q.cols(), merges);
  return {product(number, scores, k), product<Scalar>(number, transposed(scores), q),
          product<Scalar>(number, transposed(dropped(number, forward.probabilities, dropout)), grad)};
}

/// Rotates elements i and i + d/2 of row p by the angle whose cosine and sine are at (p, i), and by the
/// negative of that angle if `backward` is true.
template <typename Scalar>
Matrix<Scalar> rotated(const Number<Scalar>& number, const Matrix<Scalar>& x, const Matrix<Scalar>& cosines,
                       const Matrix<Scalar>& sines, bool backward) {
  const Eigen::Index half = x.cols() / 2;
  return matrix_of(number, x.rows(), x.cols(), [&](Eigen::Index p, Eigen::Index f) {
    const Eigen::Index i = f % half;
    const Scalar s = backward ? -sines(p, i) : sines(p, i);
    return f < half ? x(p, i) * cosines(p, i) - x(p, i + half) * s
                    : x(p, i + half) * cosines(p, i) + x(p, i) * s;
  });
}

}  // namespace verify::reference
