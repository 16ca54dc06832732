#include "sim/context/attention_block.h"

#include "sim/tensor/checks.h"
#include "sim/tensor/matmul.h"
#include "sim/tensor/ops.h"
#include "sim/tensor/rows.h"

namespace sim {

namespace {

/// Views [A, B, S, d] as [A B, S d], so that rows of the third dimension are columns.
Tensor flat_sequences(const Tensor& x) {
  const Shape& shape = x.shape();
  return x.reshaped({shape[0] * shape[1], shape[2] * shape[3]});
}

Tensor summed_matmul(Operand a, Operand b, const Shape& shape) {
  Tensor sums = filled(a.tensor.device(), sum_dtype(a.tensor.dtype()), shape, 0);
  add_matmul(a, b, sums);
  return sums;
}

}  // namespace

Tensor sequence_rows(const Tensor& x, RowRange rows) {
  const Shape& shape = x.shape();
  if (rows.count() == shape[2]) return x;
  const Tensor taken = columns(flat_sequences(x), rows.begin * shape[3], rows.count() * shape[3]);
  return taken.reshaped({shape[0], shape[1], rows.count(), shape[3]});
}

void put_sequence_rows(const Tensor& x, Tensor& to, RowRange rows) {
  if (rows.count() == 0) return;
  Tensor flat = flat_sequences(to);
  put_columns(flat_sequences(x), flat, rows.begin * to.shape()[3]);
}

void add_sequence_rows(const Tensor& x, Tensor& to, RowRange rows) {
  if (rows.count() > 0) put_sequence_rows(add(sequence_rows(to, rows), x), to, rows);
}

Tensor by_group(const Tensor& heads, std::int64_t groups) {
  const Shape& shape = heads.shape();
  return heads.reshaped({shape[0], groups, shape[1] / groups * shape[2], shape[3]});
}

Tensor scores_of(const AttentionInputs& block) {
  const Shape& queries = block.queries.shape();
  const Tensor scores = matmul(by_group(block.queries, block.keys.shape()[1]), transposed(block.keys));
  return scores.reshaped({queries[0], queries[1], queries[2], block.keys.shape()[2]});
}

Tensor context_of(const Tensor& weights, const Tensor& values) {
  const Shape& shape = weights.shape();
  return matmul(by_group(weights, values.shape()[1]), values)
      .reshaped({shape[0], shape[1], shape[2], values.shape()[3]});
}

Tensor grad_weights_of(const AttentionInputs& block, const Tensor& grad_context) {
  const Shape& queries = block.queries.shape();
  return matmul(by_group(grad_context, block.values.shape()[1]), transposed(block.values))
      .reshaped({queries[0], queries[1], queries[2], block.keys.shape()[2]});
}

BlockGradients block_gradients(const AttentionInputs& block, const Tensor& weights, const Tensor& grad_scores,
                               const Tensor& grad_context) {
  const std::int64_t groups = block.keys.shape()[1];
  const Tensor scores = by_group(grad_scores, groups), queries = by_group(block.queries, groups);
  const Tensor grad_queries = summed_matmul(scores, block.keys, queries.shape());
  return {.queries = grad_queries.reshaped(block.queries.shape()),
          .keys = matmul(transposed(scores), queries),
          .values = matmul(transposed(by_group(weights, groups)), by_group(grad_context, groups))};
}

PartialAttention partial_attention(const AttentionInputs& block, SeenKeys seen) {
  const Shape& queries = block.queries.shape();
  const std::int64_t groups = block.keys.shape()[1], width = block.values.shape()[3];
  PartialAttention partial;
  partial.stats = block.queries.device().empty(sum_dtype(block.queries.dtype()),
                                               {2, queries[0] * queries[1] * queries[2]});
  const Tensor p = by_group(partial_softmax(scores_of(block), queries[3], seen, partial.stats), groups);
  partial.context = summed_matmul(p, block.values, {queries[0], groups, p.shape()[2], width})
                        .reshaped({queries[0], queries[1], queries[2], width});
  return partial;
}

BlockGradients partial_attention_backward(const AttentionInputs& block, SeenKeys seen, const Tensor& stats,
                                          const Tensor& grad_context, const Tensor& means) {
  const auto of_softmax = partial_softmax_backward(scores_of(block), block.queries.shape()[3], seen, stats,
                                                   grad_weights_of(block, grad_context), means.flat());
  return block_gradients(block, of_softmax.probabilities, of_softmax.scores, grad_context);
}

}  // namespace sim
