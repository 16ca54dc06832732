#pragma once

/// Multi-head latent attention and its gradients, on one device. It goes head by head and sequence by
/// sequence; nothing is batched, expanded or transposed.
///
/// Shapes  B sequences of S tokens, n heads. x [S B, H], where token s of sequence b is row s B + b. Latent
///         states: of queries x q_down^T [S B, R_q], where q_down [R_q, H] is empty if queries come from x
///         itself; of keys and values the first R_kv columns of x kv_down^T, with kv_down [R_kv + d_r, H],
///         whose other columns are the part of keys that has positions, for all heads. q_up
///         [n (d_n + d_r), R_q or H], head by head [without positions, with them]; kv_up [n (d_n + d_v),
///         R_kv], head by head [key, value]; proj weight [H, n d_v]. proj_bias has one row, or is empty; so
///         has a norm of latent states. cosines and sines [S, d_r/2]; dropout [B n S, S], ordered by
///         sequence and then by head, or empty.
/// Exact   A query and a key end with the first elements of all rotated pairs, and then the second ones.
/// Source  DeepSeek-AI 2024 (DeepSeek-V2); Su et al. 2021 (a pair is elements 2 i and 2 i + 1).

#include <utility>
#include <vector>

#include "verify/reference/attention.h"
#include "verify/reference/linear.h"
#include "verify/reference/norm.h"
#include "verify/reference/self_attention.h"

namespace verify::reference {

struct LatentAttentionSizes {
  std::int64_t sequence, batch, heads;
  std::int64_t content, positions, values;  // d_n, d_r and d_v
  bool causal;
  int merges = 0;         // attention.h
  NormSetting norm = {};  // of latent states, if they have one
  std::int64_t channels() const { return content + positions; }
};

template <typename Scalar>
struct LatentAttentionWeights {
  Matrix<Scalar> q_down, q_up, kv_down, kv_up, proj, proj_bias, cosines, sines, dropout;
  HeadNorm<Scalar> q_norm = {}, kv_norm = {};
};

template <typename Scalar>
class LatentAttention {
 public:
  LatentAttention(const Number<Scalar>& number, const LatentAttentionSizes& sizes,
                  const LatentAttentionWeights<Scalar>& weights, const Matrix<Scalar>& x)
      : number_(number),
        sizes_(sizes),
        weights_(weights),
        x_(x),
        down_(linear<Scalar>(number, x, weights.kv_down, {})),
        q_latent_(latent(weights.q_down.size() == 0 ? x : linear<Scalar>(number, x, weights.q_down, {}),
                         weights.q_norm)),
        kv_latent_(latent(down_.leftCols(weights.kv_up.cols()), weights.kv_norm)),
        context_(x.rows(), sizes.heads * sizes.values) {
    const Matrix<Scalar> q = linear<Scalar>(number, q_latent_.output, weights.q_up, {});
    const Matrix<Scalar> kv = linear<Scalar>(number, kv_latent_.output, weights.kv_up, {});
    for (std::int64_t b = 0; b < sizes.batch; ++b) {
      const Matrix<Scalar> shared = at_position(taken(down_, b, weights.kv_up.cols(), sizes.positions));
      for (std::int64_t h = 0; h < sizes.heads; ++h) {
        Head head;
        head.q = beside(taken(q, b, h * sizes.channels(), sizes.content),
                        at_position(taken(q, b, h * sizes.channels() + sizes.content, sizes.positions)));
        head.k = beside(taken(kv, b, kv_column(h), sizes.content), shared);
        head.v = taken(kv, b, kv_column(h) + sizes.content, sizes.values);
        const Sight sight{.causal = sizes.causal};
        head.forward = attention(number, head.q, head.k, head.v, sight, dropout(b, h), sizes.merges);
        put(head.forward.output, context_, b, h * sizes.values);
        heads_.push_back(std::move(head));
      }
    }
  }

  /// Returns the queries after rotary positions, [B n S, d_n + d_r].
  Matrix<Scalar> queries() const {
    return of_all_heads(
        sizes_.channels(), [](const Head& head) -> const auto& { return head.q; });
  }
  /// Returns the probabilities before dropout, [B n S, S].
  Matrix<Scalar> probabilities() const {
    return of_all_heads(
        sizes_.sequence, [](const Head& head) -> const auto& { return head.forward.probabilities; });
  }
  const Matrix<Scalar>& context() const { return context_; }
  Matrix<Scalar> output() const { return linear(number_, context_, weights_.proj, weights_.proj_bias); }

  struct Gradients {
    Matrix<Scalar> x;
    LinearGradients<Scalar> q_down, q_up, kv_down, kv_up, proj;  // q_down is empty where there is none
    HeadNorm<Scalar> q_norm, kv_norm;                            // empty without norms
  };
  Gradients gradients(const Matrix<Scalar>& grad) const {
    Gradients all;
    all.proj = linear_gradients(number_, context_, weights_.proj, grad);
    Matrix<Scalar> grad_q(x_.rows(), sizes_.heads * sizes_.channels());
    Matrix<Scalar> grad_kv(x_.rows(), sizes_.heads * (sizes_.content + sizes_.values));
    Matrix<Scalar> grad_down(x_.rows(), down_.cols());
    for (std::int64_t b = 0; b < sizes_.batch; ++b) put_gradients(all.proj.x, b, grad_q, grad_kv, grad_down);

    all.kv_up = linear_gradients(number_, kv_latent_.output, weights_.kv_up, grad_kv);
    grad_down.leftCols(weights_.kv_up.cols()) =
        latent_back(kv_latent_, weights_.kv_norm, all.kv_up.x, all.kv_norm);
    all.kv_down = linear_gradients(number_, x_, weights_.kv_down, grad_down);
    all.q_up = linear_gradients(number_, q_latent_.output, weights_.q_up, grad_q);
    Matrix<Scalar> of_queries = latent_back(q_latent_, weights_.q_norm, all.q_up.x, all.q_norm);
    if (weights_.q_down.size() > 0) {
      all.q_down = linear_gradients(number_, x_, weights_.q_down, of_queries);
      of_queries = all.q_down.x;
    }
    all.x = added(number_, of_queries, all.kv_down.x);
    return all;
  }

 private:
  struct Head {
    Matrix<Scalar> q, k, v;
    Attention<Scalar> forward;
  };
  /// A latent state, after its norm if it has one.
  struct Latent {
    Normal<Scalar> normal = {};  // empty without a norm
    Matrix<Scalar> output = {};
  };
  Latent latent(const Matrix<Scalar>& state, const HeadNorm<Scalar>& norm) const {
    if (norm.weight.size() == 0) return {.normal = {}, .output = state};
    Latent result{.normal = normal(number_, state, sizes_.norm), .output = {}};
    result.output = norm_of_normal(number_, result.normal, norm.weight, norm.bias);
    return result;
  }
  /// Returns the gradient of a latent state before its norm, and sets those of the norm's parameters.
  Matrix<Scalar> latent_back(const Latent& state, const HeadNorm<Scalar>& norm, const Matrix<Scalar>& grad,
                             HeadNorm<Scalar>& of_norm) const {
    if (norm.weight.size() == 0) return grad;
    auto gradients = norm_gradients(number_, state.normal, norm.weight, grad, sizes_.norm);
    of_norm = {std::move(gradients.weight), std::move(gradients.bias)};
    return std::move(gradients.x);
  }

  /// Puts the gradients of all heads of a sequence into those of the up-projections' outputs, and the sum of
  /// those of their shared part of keys into that of the down-projection's.
  void put_gradients(const Matrix<Scalar>& grad_context, std::int64_t b, Matrix<Scalar>& grad_q,
                     Matrix<Scalar>& grad_kv, Matrix<Scalar>& grad_down) const {
    std::vector<AttentionGradients<Scalar>> of_heads;
    for (std::int64_t h = 0; h < sizes_.heads; ++h) {
      const Head& head = heads_[static_cast<std::size_t>(b * sizes_.heads + h)];
      of_heads.push_back(attention_gradients(number_, head.q, head.k, head.v, head.forward,
                                             taken(grad_context, b, h * sizes_.values, sizes_.values),
                                             dropout(b, h), sizes_.merges));
      const AttentionGradients<Scalar>& own = of_heads.back();
      put(own.q.leftCols(sizes_.content), grad_q, b, h * sizes_.channels());
      put(back_from_position(own.q.rightCols(sizes_.positions)), grad_q, b,
          h * sizes_.channels() + sizes_.content);
      put(own.k.leftCols(sizes_.content), grad_kv, b, kv_column(h));
      put(own.v, grad_kv, b, kv_column(h) + sizes_.content);
    }
    // A candidate may add the heads in any order, on one rank or several.
    const auto shared =
        matrix_of(number_, sizes_.sequence, sizes_.positions, [&](Eigen::Index t, Eigen::Index f) {
          Sum<Scalar> sum;
          for (const auto& own : of_heads) sum.add(own.k(t, sizes_.content + f));
          return sum.value_in_parts();
        });
    put(back_from_position(shared), grad_down, b, weights_.kv_up.cols());
  }

  /// Rotates each pair of neighbours in a row of x [S, d_r] by the angle of its position.
  Matrix<Scalar> at_position(const Matrix<Scalar>& x) const {
    const Eigen::Index half = x.cols() / 2;
    return matrix_of(number_, x.rows(), x.cols(), [&](Eigen::Index p, Eigen::Index f) {
      const Eigen::Index i = f % half;
      const Scalar &c = weights_.cosines(p, i), &s = weights_.sines(p, i);
      return f < half ? x(p, 2 * i) * c - x(p, 2 * i + 1) * s : x(p, 2 * i + 1) * c + x(p, 2 * i) * s;
    });
  }
  Matrix<Scalar> back_from_position(const Matrix<Scalar>& grad) const {
    const Eigen::Index half = grad.cols() / 2;
    return matrix_of(number_, grad.rows(), grad.cols(), [&](Eigen::Index p, Eigen::Index f) {
      const Eigen::Index i = f / 2;
      const Scalar &c = weights_.cosines(p, i), &s = weights_.sines(p, i);
      return f % 2 == 0 ? grad(p, i) * c + grad(p, i + half) * s : grad(p, i + half) * c - grad(p, i) * s;
    });
  }

  std::int64_t kv_column(std::int64_t head) const { return head * (sizes_.content + sizes_.values); }
  Matrix<Scalar> dropout(std::int64_t b, std::int64_t h) const {
    if (weights_.dropout.size() == 0) return {};
    return weights_.dropout.middleRows((b * sizes_.heads + h) * sizes_.sequence, sizes_.sequence);
  }
  static Matrix<Scalar> beside(const Matrix<Scalar>& left, const Matrix<Scalar>& right) {
    Matrix<Scalar> both(left.rows(), left.cols() + right.cols());
    both << left, right;
    return both;
  }
  /// Returns columns of the rows of sequence b.
  Matrix<Scalar> taken(const Matrix<Scalar>& from, std::int64_t b, std::int64_t column,
                       std::int64_t columns) const {
    Matrix<Scalar> part(sizes_.sequence, columns);
    for (Eigen::Index t = 0; t < sizes_.sequence; ++t)
      part.row(t) = from.row(t * sizes_.batch + b).segment(column, columns);
    return part;
  }
  void put(const Matrix<Scalar>& part, Matrix<Scalar>& to, std::int64_t b, std::int64_t column) const {
    for (Eigen::Index t = 0; t < sizes_.sequence; ++t)
      to.row(t * sizes_.batch + b).segment(column, part.cols()) = part.row(t);
  }
  /// Puts a matrix of each head, [S, width], one below the other: by sequence, then by head.
  template <typename Member>
  Matrix<Scalar> of_all_heads(std::int64_t width, const Member& member) const {
    Matrix<Scalar> all(sizes_.batch * sizes_.heads * sizes_.sequence, width);
    Eigen::Index row = 0;
    for (const Head& head : heads_) {
      all.middleRows(row, sizes_.sequence) = member(head);
      row += sizes_.sequence;
    }
    return all;
  }

  Number<Scalar> number_;
  LatentAttentionSizes sizes_;
  LatentAttentionWeights<Scalar> weights_;
  Matrix<Scalar> x_, down_;
  Latent q_latent_, kv_latent_;
  Matrix<Scalar> context_;
  std::vector<Head> heads_;  // by sequence, and then by head
};

}  // namespace verify::reference
