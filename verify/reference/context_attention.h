#pragma once

/// Attention over sequences that hold several documents with padding, and its gradients, on one device. Each
/// document attends to itself alone, and rows of padding have no output and no gradient.
///
/// Shapes  B sequences of S rows; n query heads of d channels, g heads of keys of d and of values of dv.
///         queries [S, B n d], keys [S, B g d], values [S, B g dv], output [S, B n dv]: a row holds all
///         sequences, one after the other, and each holds its heads.
/// Exact   `merges` is that of attention.h.
/// Source  Vaswani et al. 2017.

#include <vector>

#include "verify/reference/attention.h"

namespace verify::reference {

struct AttentionDocument {
  std::int64_t begin, rows;  // without padding
};

struct ContextAttentionSizes {
  std::int64_t sequence, batch, heads, groups, channels, value_channels;
  std::vector<AttentionDocument> documents;
  Sight sight;
  int merges;
};

template <typename Scalar>
class ContextAttention {
 public:
  ContextAttention(const Number<Scalar>& number, const ContextAttentionSizes& sizes,
                   const Matrix<Scalar>& queries, const Matrix<Scalar>& keys, const Matrix<Scalar>& values)
      : number_(number),
        sizes_(sizes),
        queries_(queries),
        keys_(keys),
        values_(values),
        output_(zeros<Scalar>(sizes.sequence, sizes.batch * sizes.heads * sizes.value_channels)) {
    each_head([&](const Head& head) {
      probabilities_.push_back(
          attention_probabilities(number_, query_of(head), key_of(head), sizes_.sight, sizes_.merges));
      put(product<Scalar>(number_, probabilities_.back(), value_of(head)), output_, head.document,
          head.query * sizes_.value_channels);
    });
  }
  const Matrix<Scalar>& output() const { return output_; }

  AttentionGradients<Scalar> gradients(const Matrix<Scalar>& grad) const {
    AttentionGradients<Scalar> all{zeros<Scalar>(queries_.rows(), queries_.cols()),
                                   zeros<Scalar>(keys_.rows(), keys_.cols()),
                                   zeros<Scalar>(values_.rows(), values_.cols())};
    const std::int64_t shared = sizes_.heads / sizes_.groups;
    std::vector<OfHead> of_group;
    auto probabilities = probabilities_.begin();
    each_head([&](const Head& head) {
      of_group.push_back(gradients_of(head, *probabilities++, grad));
      put(product<Scalar>(number_, of_group.back().scores, key_of(head)), all.q, head.document,
          head.query * sizes_.channels);
      if (std::ssize(of_group) < shared) return;
      put(summed(of_group, &OfHead::scores, &OfHead::query), all.k, head.document,
          head.key * sizes_.channels);
      put(summed(of_group, &OfHead::probabilities, &OfHead::grad), all.v, head.document,
          head.key * sizes_.value_channels);
      of_group.clear();
    });
    return all;
  }

 private:
  /// A document of a head. `query` and `key` count the heads of all sequences.
  struct Head {
    AttentionDocument document;
    std::int64_t query, key;
  };
  struct OfHead {
    Matrix<Scalar> probabilities, scores, query, grad;
  };

  template <typename Visit>
  void each_head(const Visit& visit) const {
    const std::int64_t shared = sizes_.heads / sizes_.groups;
    for (const AttentionDocument& document : sizes_.documents)
      for (std::int64_t head = 0; head < sizes_.batch * sizes_.heads; ++head)
        visit(Head{document, head, head / shared});
  }

  OfHead gradients_of(const Head& head, const Matrix<Scalar>& probabilities,
                      const Matrix<Scalar>& grad) const {
    OfHead own{.probabilities = probabilities,
               .scores = {},
               .query = query_of(head),
               .grad = taken(grad, head.document, head.query * sizes_.value_channels, sizes_.value_channels)};
    const Attention<Scalar> forward{
        probabilities,
        taken(output_, head.document, head.query * sizes_.value_channels, sizes_.value_channels)};
    const Matrix<Scalar> grad_p = product<Scalar>(number_, own.grad, transposed(value_of(head)));
    own.scores = score_gradients(number_, forward, own.grad, grad_p, sizes_.channels, sizes_.merges);
    return own;
  }

  /// Returns the sum over the query heads of a group, and over their rows, of the product of two matrices.
  Matrix<Scalar> summed(const std::vector<OfHead>& of_group, Matrix<Scalar> OfHead::*by_key,
                        Matrix<Scalar> OfHead::*by_feature) const {
    const OfHead& first = of_group.front();
    return matrix_of(number_, (first.*by_key).cols(), (first.*by_feature).cols(),
                     [&](Eigen::Index j, Eigen::Index f) {
                       Sum<Scalar> sum;
                       for (const OfHead& head : of_group)
                         for (Eigen::Index i = 0; i < (head.*by_key).rows(); ++i)
                           sum.add_product((head.*by_key)(i, j), (head.*by_feature)(i, f));
                       return sum.value_in_parts();
                     });
  }

  Matrix<Scalar> query_of(const Head& head) const {
    return taken(queries_, head.document, head.query * sizes_.channels, sizes_.channels);
  }
  Matrix<Scalar> key_of(const Head& head) const {
    return taken(keys_, head.document, head.key * sizes_.channels, sizes_.channels);
  }
  Matrix<Scalar> value_of(const Head& head) const {
    return taken(values_, head.document, head.key * sizes_.value_channels, sizes_.value_channels);
  }
  static Matrix<Scalar> taken(const Matrix<Scalar>& from, const AttentionDocument& document,
                              std::int64_t column, std::int64_t columns) {
    return from.block(document.begin, column, document.rows, columns);
  }
  static void put(const Matrix<Scalar>& block, Matrix<Scalar>& to, const AttentionDocument& document,
                  std::int64_t column) {
    to.block(document.begin, column, block.rows(), block.cols()) = block;
  }

  Number<Scalar> number_;
  ContextAttentionSizes sizes_;
  Matrix<Scalar> queries_, keys_, values_, output_;
  std::vector<Matrix<Scalar>> probabilities_;  // in the order of each_head()
};

}  // namespace verify::reference
