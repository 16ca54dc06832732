#pragma once

/// Attention of some rows of queries to some rows of keys: what each kind of context-parallel attention is
/// made of.
///
/// Shapes  queries [B, n, Q, d], keys [B, g, K, d], values [B, g, K, dv]; scores [B, n, Q, K]. A query
///         sees some keys (SeenKeys).
/// Calls   none.
/// Errors  those of checks.h.
/// Exact   Gradients of keys and values of a group are sums over its query heads, one after the other.
/// Source  Dao 2023 (the gradient of a block from the stats of all keys).

#include "sim/tensor/softmax.h"

namespace sim {

struct RowRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t count() const { return end - begin; }
};

/// Returns rows of the third dimension: [.., rows, d] of [.., S, d]. All rows share storage with x.
Tensor sequence_rows(const Tensor& x, RowRange rows);
void put_sequence_rows(const Tensor& x, Tensor& to, RowRange rows);
void add_sequence_rows(const Tensor& x, Tensor& to, RowRange rows);

struct AttentionInputs {
  Tensor queries;
  Tensor keys;
  Tensor values;
};

/// Views [B, n, S, x] as [B, g, n/g S, x]: the heads of a group, one below the other.
Tensor by_group(const Tensor& heads, std::int64_t groups);

/// Returns queries times keys, [B, n, Q, K].
Tensor scores_of(const AttentionInputs& block);
/// Returns weights [B, n, Q, K] times values.
Tensor context_of(const Tensor& weights, const Tensor& values);

struct BlockGradients {
  Tensor queries;  // a sum tensor
  Tensor keys;
  Tensor values;
};
/// Returns the gradients, from those of scores and from the weights that context_of() took.
BlockGradients block_gradients(const AttentionInputs& block, const Tensor& weights, const Tensor& grad_scores,
                               const Tensor& grad_context);
/// Returns the gradient of the weights, [B, n, Q, K].
Tensor grad_weights_of(const AttentionInputs& block, const Tensor& grad_context);

/// Attention over some of the keys, in sum tensors, before it is divided by the sums of exponentials.
struct PartialAttention {
  Tensor context;  // [B, n, Q, dv]
  Tensor stats;    // [2, B n Q]
};
PartialAttention partial_attention(const AttentionInputs& block, SeenKeys seen);
/// `stats` and `means` [B, n, Q] are those of the softmax over all keys (partial_softmax_backward).
BlockGradients partial_attention_backward(const AttentionInputs& block, SeenKeys seen, const Tensor& stats,
                                          const Tensor& grad_context, const Tensor& means);

}  // namespace sim
