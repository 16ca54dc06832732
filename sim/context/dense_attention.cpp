#include "sim/context/attention_block.h"
#include "sim/context/context_attentions.h"
#include "sim/parallel/parallel_dropout.h"
#include "sim/tensor/checks.h"
#include "sim/tensor/ops.h"

namespace sim::context_attentions {

namespace {

class DenseAttention : public CoreAttention {
 public:
  DenseAttention(Rank& rank, const CoreAttentionConfig& config, const SequenceCut& cut)
      : keys_(config.keys),
        cut_(cut),
        dropout_(rank, {.name = config.name, .probability = config.dropout, .region = Region::sharded}) {}

  Forward forward(const Tensor& queries, const Tensor& keys, const Tensor& values,
                  std::uint64_t pass) override {
    require_shapes(queries.shape()[2] == cut_.length() && keys.shape()[2] == cut_.length(), {&queries, &keys},
                   "core_attention", "one rank has all rows of the sequence");
    Forward forward{.context = {},
                    .saved = {.queries = queries, .keys = keys, .values = values, .pass = pass}};
    if (!is_one_document())
      forward.context = room_for_context(queries, values, queries.dtype(), cut_.has_padding());
    for (const Document& document : cut_.documents()) {
      const AttentionInputs block = block_of(forward.saved, document);
      forward.saved.probabilities.push_back(softmax(scores_of(block), queries.shape()[3], keys_));
      const Tensor weights = dropout_.forward(forward.saved.probabilities.back(), pass);
      put(context_of(weights, block.values), document, forward.context);
    }
    forward.saved.context = forward.context;
    return forward;
  }

  Gradients backward(const Saved& saved, const Tensor& grad_context) override {
    Gradients gradients;
    if (!is_one_document())
      gradients = {room_for_gradient(saved.queries), room_for_gradient(saved.keys),
                   room_for_gradient(saved.values)};
    for (std::size_t i = 0; i < cut_.documents().size(); ++i) {
      const Document& document = cut_.documents()[i];
      const AttentionInputs block = block_of(saved, document);
      const Tensor& probabilities = saved.probabilities[i];
      const Tensor grad = sequence_rows(grad_context, rows_of(document));
      const Tensor grad_p = dropout_.backward(grad_weights_of(block, grad), saved.pass);
      const Tensor grad_scores = softmax_backward(probabilities, grad_p, saved.queries.shape()[3]);
      const BlockGradients own =
          block_gradients(block, dropout_.forward(probabilities, saved.pass), grad_scores, grad);
      put(cast(own.queries, saved.queries.dtype()), document, gradients.queries);
      put(own.keys, document, gradients.keys);
      put(own.values, document, gradients.values);
    }
    return gradients;
  }

 private:
  bool is_one_document() const { return cut_.documents().size() == 1 && !cut_.has_padding(); }
  /// Puts what was computed for a document. A single document is the whole and needs no room.
  void put(const Tensor& x, const Document& document, Tensor& to) const {
    if (is_one_document()) {
      to = x;
    } else {
      put_sequence_rows(x, to, rows_of(document));
    }
  }
  static RowRange rows_of(const Document& document) {
    return {document.begin, document.begin + document.real_length};
  }
  static AttentionInputs block_of(const Saved& saved, const Document& document) {
    return {sequence_rows(saved.queries, rows_of(document)), sequence_rows(saved.keys, rows_of(document)),
            sequence_rows(saved.values, rows_of(document))};
  }
  Tensor room_for_gradient(const Tensor& of) const {
    return cut_.has_padding() ? filled(of.device(), of.dtype(), of.shape(), 0)
                              : of.device().empty(of.dtype(), of.shape());
  }

  SeenKeys keys_;
  SequenceCut cut_;
  ParallelDropout dropout_;
};

}  // namespace

std::unique_ptr<CoreAttention> dense(Rank& rank, const CoreAttentionConfig& config, const SequenceCut& cut) {
  return std::make_unique<DenseAttention>(rank, config, cut);
}

}  // namespace sim::context_attentions
