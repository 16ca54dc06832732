#pragma once

/// Self-attention with grouped queries and its gradients, on one device. It goes head by head and sequence by
/// sequence; nothing is batched, grouped or transposed. Queries and keys may have a norm, before their rotary
/// positions.
///
/// Shapes  B sequences of S tokens, n heads of d channels, g query groups. x [S B, H], where token s of
///         sequence b is row s B + b; qkv weight [(n + 2 g) d, H], whose rows are, group by group,
///         [q ... q, k, v]; proj weight [H, n d]. A bias has one row, or is empty. cosines and sines
///         [S, d/2], or empty; weight and bias of a norm [1, d], or empty; dropout [B n S, S], ordered by
///         sequence and then by head, or empty.
/// Source  Vaswani et al. 2017; Ainslie et al. 2023.

#include <utility>
#include <vector>

#include "verify/reference/attention.h"
#include "verify/reference/linear.h"
#include "verify/reference/norm.h"

namespace verify::reference {

struct SelfAttentionSizes {
  std::int64_t sequence, batch, heads, groups, channels;
  Sight sight;
  int merges = 0;                                          // attention.h
  NormSetting norm = {};                                   // of queries and keys, if they have one
  std::int64_t queries() const { return heads / groups; }  // query heads of a group
  std::int64_t first_column(std::int64_t group) const { return group * (queries() + 2) * channels; }
};

/// The norm of queries or of keys. Its weight is empty where there is none.
template <typename Scalar>
struct HeadNorm {
  Matrix<Scalar> weight = {}, bias = {};
};

template <typename Scalar>
struct SelfAttentionWeights {
  Matrix<Scalar> qkv_weight, qkv_bias, proj_weight, proj_bias, cosines, sines, dropout;
  HeadNorm<Scalar> q_norm = {}, k_norm = {};
};

template <typename Scalar>
class SelfAttention {
 public:
  SelfAttention(const Number<Scalar>& number, const SelfAttentionSizes& sizes,
                const SelfAttentionWeights<Scalar>& weights, const Matrix<Scalar>& x)
      : number_(number),
        sizes_(sizes),
        weights_(weights),
        x_(x),
        mixed_(linear(number, x, weights.qkv_weight, weights.qkv_bias)),
        queries_(normed(weights.q_norm, sizes.queries(), 0)),
        keys_(normed(weights.k_norm, 1, sizes.queries())),
        context_(x.rows(), sizes.heads * sizes.channels) {
    each_group([&](std::int64_t b, std::int64_t group) {
      groups_.push_back({.k = key(b, group), .v = value(b, group), .heads = {}});
      Group& own = groups_.back();
      for (std::int64_t i = 0; i < sizes_.queries(); ++i) {
        Head head{.q = query(b, group, i), .forward = {}};
        head.forward =
            attention(number_, head.q, own.k, own.v, sizes_.sight, dropout(b, group, i), sizes_.merges);
        put(head.forward.output, context_, b, context_column(group, i));
        own.heads.push_back(std::move(head));
      }
    });
  }

  /// Returns the queries after rotary positions, [B n S, d].
  Matrix<Scalar> queries() const {
    return of_all_heads(
        sizes_.channels, [](const Head& head) -> const auto& { return head.q; });
  }
  /// Returns the probabilities before dropout, [B n S, S].
  Matrix<Scalar> probabilities() const {
    return of_all_heads(
        sizes_.sequence, [](const Head& head) -> const auto& { return head.forward.probabilities; });
  }
  const Matrix<Scalar>& context() const { return context_; }
  Matrix<Scalar> output() const {
    return linear(number_, context_, weights_.proj_weight, weights_.proj_bias);
  }

  struct Gradients {
    Matrix<Scalar> x;
    LinearGradients<Scalar> qkv, proj;
    HeadNorm<Scalar> q_norm, k_norm;  // empty without norms
  };
  Gradients gradients(const Matrix<Scalar>& grad) const {
    const auto proj = linear_gradients(number_, context_, weights_.proj_weight, grad);
    Matrix<Scalar> grad_mixed(x_.rows(), mixed_.cols());
    Matrix<Scalar> of_queries(queries_.rows.rows(), sizes_.channels);
    Matrix<Scalar> of_keys(keys_.rows.rows(), sizes_.channels);
    each_group([&](std::int64_t b, std::int64_t group) {
      put_gradients(proj.x, b, group, of_queries, of_keys, grad_mixed);
    });
    const HeadNorm<Scalar> q_norm = norm_back(queries_, weights_.q_norm, of_queries, grad_mixed);
    const HeadNorm<Scalar> k_norm = norm_back(keys_, weights_.k_norm, of_keys, grad_mixed);
    const auto qkv = linear_gradients(number_, x_, weights_.qkv_weight, grad_mixed);
    return {qkv.x, qkv, proj, q_norm, k_norm};
  }

 private:
  /// A head of a sequence, and the heads of a sequence that share a key and a value.
  struct Head {
    Matrix<Scalar> q;
    Attention<Scalar> forward;
  };
  struct Group {
    Matrix<Scalar> k, v;
    std::vector<Head> heads;
  };
  const Group& group_of(std::int64_t b, std::int64_t group) const {
    return groups_[static_cast<std::size_t>(b * sizes_.groups + group)];
  }

  /// All query heads, or all key heads, [S, d] each, one below the other: by sequence, and then by head.
  struct Heads {
    std::int64_t a_group;   // heads of a group
    std::int64_t first;     // the place of the first of them among the heads of its group in `mixed`
    Matrix<Scalar> rows;    // after the norm, before rotary positions
    Normal<Scalar> normal;  // empty without a norm
  };
  Heads normed(const HeadNorm<Scalar>& norm, std::int64_t a_group, std::int64_t first) const {
    Heads heads{a_group, first, {}, {}};
    heads.rows.resize(sizes_.batch * sizes_.groups * a_group * sizes_.sequence, sizes_.channels);
    each_head(heads, [&](Eigen::Index row, std::int64_t b, std::int64_t column) {
      heads.rows.middleRows(row, sizes_.sequence) = taken(mixed_, b, column);
    });
    if (norm.weight.size() == 0) return heads;
    heads.normal = normal(number_, heads.rows, sizes_.norm);
    heads.rows = norm_of_normal(number_, heads.normal, norm.weight, norm.bias);
    return heads;
  }
  /// Calls visit(first row of the head in its list, sequence, first column in `mixed`) for each head.
  template <typename Visit>
  void each_head(const Heads& heads, const Visit& visit) const {
    Eigen::Index row = 0;
    each_group([&](std::int64_t b, std::int64_t group) {
      for (std::int64_t i = 0; i < heads.a_group; ++i, row += sizes_.sequence)
        visit(row, b, sizes_.first_column(group) + (heads.first + i) * sizes_.channels);
    });
  }
  /// Takes gradients of heads back through their norm, and puts them into grad_mixed. Returns the gradients
  /// of the norm's weight and bias.
  HeadNorm<Scalar> norm_back(const Heads& heads, const HeadNorm<Scalar>& norm, Matrix<Scalar> grad,
                             Matrix<Scalar>& grad_mixed) const {
    HeadNorm<Scalar> of_norm;
    if (norm.weight.size() > 0) {
      auto gradients = norm_gradients(number_, heads.normal, norm.weight, grad, sizes_.norm);
      grad = std::move(gradients.x);
      of_norm = {std::move(gradients.weight), std::move(gradients.bias)};
    }
    each_head(heads, [&](Eigen::Index row, std::int64_t b, std::int64_t column) {
      put(grad.middleRows(row, sizes_.sequence), grad_mixed, b, column);
    });
    return of_norm;
  }
  /// The first row of a head in a list of all heads.
  Eigen::Index row_of(const Heads& heads, std::int64_t b, std::int64_t group, std::int64_t i) const {
    return ((b * sizes_.groups + group) * heads.a_group + i) * sizes_.sequence;
  }

  template <typename Visit>
  void each_group(const Visit& visit) const {
    for (std::int64_t b = 0; b < sizes_.batch; ++b) {
      for (std::int64_t group = 0; group < sizes_.groups; ++group) visit(b, group);
    }
  }

  /// Puts the gradients of the queries and of the key of a group into those of all heads, and that of its
  /// value into grad_mixed.
  void put_gradients(const Matrix<Scalar>& grad_context, std::int64_t b, std::int64_t group,
                     Matrix<Scalar>& of_queries, Matrix<Scalar>& of_keys, Matrix<Scalar>& grad_mixed) const {
    const Group& own = group_of(b, group);
    std::vector<AttentionGradients<Scalar>> of_heads;
    for (std::int64_t i = 0; i < sizes_.queries(); ++i) {
      const Head& head = own.heads[static_cast<std::size_t>(i)];
      of_heads.push_back(attention_gradients(number_, head.q, own.k, own.v, head.forward,
                                             taken(grad_context, b, context_column(group, i)),
                                             dropout(b, group, i), sizes_.merges));
      of_queries.middleRows(row_of(queries_, b, group, i), sizes_.sequence) =
          at_position(of_heads.back().q, true);
    }
    // A key or value head serves all query heads of its group, so its gradient is a sum over them. A
    // candidate may add in any order, on one rank or several.
    const auto summed = [&](auto member) {
      return matrix_of(number_, sizes_.sequence, sizes_.channels, [&](Eigen::Index t, Eigen::Index f) {
        Sum<Scalar> sum;
        for (const auto& head : of_heads) sum.add((head.*member)(t, f));
        return sum.value_in_parts();
      });
    };
    of_keys.middleRows(row_of(keys_, b, group, 0), sizes_.sequence) =
        at_position(summed(&AttentionGradients<Scalar>::k), true);
    put(summed(&AttentionGradients<Scalar>::v), grad_mixed, b, key_column(group) + sizes_.channels);
  }

  /// Puts a matrix of each head, [S, width], one below the other: by sequence, then by head.
  template <typename Member>
  Matrix<Scalar> of_all_heads(std::int64_t width, const Member& member) const {
    Matrix<Scalar> all(sizes_.batch * sizes_.heads * sizes_.sequence, width);
    Eigen::Index row = 0;
    for (const Group& group : groups_) {
      for (const Head& head : group.heads) {
        all.middleRows(row, sizes_.sequence) = member(head);
        row += sizes_.sequence;
      }
    }
    return all;
  }

  std::int64_t key_column(std::int64_t group) const {
    return sizes_.first_column(group) + sizes_.queries() * sizes_.channels;
  }
  std::int64_t context_column(std::int64_t group, std::int64_t query) const {
    return (group * sizes_.queries() + query) * sizes_.channels;
  }
  Matrix<Scalar> query(std::int64_t b, std::int64_t group, std::int64_t i) const {
    return at_position(queries_.rows.middleRows(row_of(queries_, b, group, i), sizes_.sequence), false);
  }
  Matrix<Scalar> key(std::int64_t b, std::int64_t group) const {
    return at_position(keys_.rows.middleRows(row_of(keys_, b, group, 0), sizes_.sequence), false);
  }
  Matrix<Scalar> value(std::int64_t b, std::int64_t group) const {
    return taken(mixed_, b, key_column(group) + sizes_.channels);
  }

  Matrix<Scalar> dropout(std::int64_t b, std::int64_t group, std::int64_t i) const {
    if (weights_.dropout.size() == 0) return {};
    const std::int64_t head = b * sizes_.heads + group * sizes_.queries() + i;
    return weights_.dropout.middleRows(head * sizes_.sequence, sizes_.sequence);
  }
  Matrix<Scalar> at_position(const Matrix<Scalar>& head, bool backward) const {
    if (weights_.cosines.size() == 0) return head;
    return rotated(number_, head, weights_.cosines, weights_.sines, backward);
  }
  /// Returns the [S, d] matrix of one head of sequence b, whose first column in `from` is `column`.
  Matrix<Scalar> taken(const Matrix<Scalar>& from, std::int64_t b, std::int64_t column) const {
    Matrix<Scalar> head(sizes_.sequence, sizes_.channels);
    for (Eigen::Index t = 0; t < sizes_.sequence; ++t) {
      for (Eigen::Index f = 0; f < sizes_.channels; ++f) head(t, f) = from(t * sizes_.batch + b, column + f);
    }
    return head;
  }
  void put(const Matrix<Scalar>& head, Matrix<Scalar>& to, std::int64_t b, std::int64_t column) const {
    for (Eigen::Index t = 0; t < sizes_.sequence; ++t) {
      for (Eigen::Index f = 0; f < sizes_.channels; ++f) to(t * sizes_.batch + b, column + f) = head(t, f);
    }
  }

  Number<Scalar> number_;
  SelfAttentionSizes sizes_;
  SelfAttentionWeights<Scalar> weights_;
  Matrix<Scalar> x_, mixed_;
  Heads queries_, keys_;
  Matrix<Scalar> context_;
  std::vector<Group> groups_;  // by sequence, and then by group
};

}  // namespace verify::reference
