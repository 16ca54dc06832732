#include "sim/context/attention_block.h"
#include "sim/context/context_attentions.h"
#include "sim/context/row_order.h"
#include "sim/parallel/region.h"
#include "sim/tensor/checks.h"
#include "sim/tensor/ops.h"

namespace sim::context_attentions {

namespace {

/// The rows of one chunk of a rank's queries, and the rows of the whole sequence that it attends to.
struct ChunkBlock {
  RowRange queries;
  RowRange keys;
};

class AllGatherAttention : public CoreAttention {
 public:
  AllGatherAttention(const CoreAttentionConfig& config, const ContextRanks& ranks)
      : keys_(config.keys), group_(ranks.group), cut_(ranks.cut), blocks_(blocks()) {}

  Forward forward(const Tensor& queries, const Tensor& keys, const Tensor& values,
                  std::uint64_t pass) override {
    Forward forward{.context = room_for_context(queries, values, queries.dtype(), cut_.has_padding()),
                    .saved = {.queries = queries, .keys = keys, .values = values, .pass = pass}};
    const AttentionInputs all = gathered(forward.saved);
    for (const ChunkBlock& chunk : blocks_) {
      const AttentionInputs block = inputs_of(all, chunk);
      const Tensor p = softmax(scores_of(block), queries.shape()[3], keys_);
      put_sequence_rows(context_of(p, block.values), forward.context, chunk.queries);
      forward.saved.probabilities.push_back(p);
    }
    forward.saved.context = forward.context;
    return forward;
  }

  Gradients backward(const Saved& saved, const Tensor& grad_context) override {
    const AttentionInputs all = gathered(saved);
    const auto zeros = [](const Tensor& like, DType dtype) {
      return filled(like.device(), dtype, like.shape(), 0);
    };
    Tensor queries = zeros(saved.queries, saved.queries.dtype());
    Tensor keys = zeros(all.keys, sum_dtype(all.keys.dtype()));
    Tensor values = zeros(all.values, sum_dtype(all.values.dtype()));
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      const ChunkBlock& chunk = blocks_[i];
      const AttentionInputs block = inputs_of(all, chunk);
      const Tensor grad = sequence_rows(grad_context, chunk.queries);
      const Tensor& p = saved.probabilities[i];
      const Tensor grad_scores = softmax_backward(p, grad_weights_of(block, grad), saved.queries.shape()[3]);
      const BlockGradients own = block_gradients(block, p, grad_scores, grad);
      put_sequence_rows(cast(own.queries, queries.dtype()), queries, chunk.queries);
      add_sequence_rows(cast(own.keys, keys.dtype()), keys, chunk.keys);
      add_sequence_rows(cast(own.values, values.dtype()), values, chunk.keys);
    }
    return {queries, scattered(cast(keys, saved.keys.dtype()), saved.keys, "all_gather_attention.grad_keys"),
            scattered(cast(values, saved.values.dtype()), saved.values, "all_gather_attention.grad_values")};
  }

 private:
  /// Returns a block for each chunk that has rows which are no padding.
  std::vector<ChunkBlock> blocks() const {
    std::vector<ChunkBlock> all;
    for (const Document& document : cut_.documents()) {
      const std::int64_t rows = document.length / (2 * group_.size());
      std::int64_t first = document.begin / group_.size();
      for (const std::int64_t chunk :
           {std::int64_t{group_.rank()}, 2 * std::int64_t{group_.size()} - 1 - group_.rank()}) {
        const std::int64_t valid = document.real_rows(chunk, rows);
        const std::int64_t seen = keys_.causal ? chunk * rows + valid : document.real_length;
        if (valid > 0) all.push_back({{first, first + valid}, {document.begin, document.begin + seen}});
        first += rows;
      }
    }
    return all;
  }

  static AttentionInputs inputs_of(const AttentionInputs& all, const ChunkBlock& chunk) {
    return {sequence_rows(all.queries, chunk.queries), sequence_rows(all.keys, chunk.keys),
            sequence_rows(all.values, chunk.keys)};
  }

  /// Returns this rank's queries with the keys and values of all rows, in the order of the sequence.
  AttentionInputs gathered(const Saved& saved) {
    return {saved.queries, gathered(saved.keys, "all_gather_attention.keys"),
            gathered(saved.values, "all_gather_attention.values")};
  }
  Tensor gathered(const Tensor& own, Site site) {
    const Shape& shape = own.shape();
    const std::int64_t heads = shape[0] * shape[1], rows = shape[2];
    const Tensor by_rank = gathered_rows(own.reshaped({heads * rows, shape[3]}), group_, site);
    const std::vector<std::int64_t> places = cut_.places_of_rows();
    std::vector<std::int64_t> order;
    for (std::int64_t head = 0; head < heads; ++head)
      for (const std::int64_t place : places)
        order.push_back((place / rows * heads + head) * rows + place % rows);
    return reordered_rows(by_rank, order).reshaped({shape[0], shape[1], cut_.length(), shape[3]});
  }
  /// Returns this rank's rows of the sum over the group of gradients in the order of the sequence.
  Tensor scattered(const Tensor& all, const Tensor& like, Site site) {
    const Shape& shape = all.shape();
    std::vector<std::int64_t> order;
    for (int rank = 0; rank < group_.size(); ++rank) {
      const std::vector<std::int64_t> rows = cut_.rows_of(rank);
      for (std::int64_t head = 0; head < shape[0] * shape[1]; ++head)
        for (const std::int64_t row : rows) order.push_back(head * shape[2] + row);
    }
    const Tensor by_rank = reordered_rows(all.reshaped({all.count() / shape[3], shape[3]}), order);
    return reduce_scattered_rows(by_rank, group_, site).reshaped(like.shape());
  }

  SeenKeys keys_;
  Communicator& group_;
  SequenceCut cut_;
  std::vector<ChunkBlock> blocks_;
};

}  // namespace

std::unique_ptr<CoreAttention> all_gather(const CoreAttentionConfig& config, const ContextRanks& ranks) {
  return std::make_unique<AllGatherAttention>(config, ranks);
}

}  // namespace sim::context_attentions
