#include <algorithm>
#include <array>

#include "sim/context/attention_block.h"
#include "sim/context/context_attentions.h"
#include "sim/tensor/checks.h"
#include "sim/tensor/matmul.h"
#include "sim/tensor/ops.h"

namespace sim::context_attentions {

namespace {

/// What a rank computes of one document with the keys of one rank, in rows of the ranks.
struct RingBlock {
  RowRange queries;
  RowRange keys;
  RowRange grad_keys;     // the keys whose gradient this step writes: those above, and padding
  std::int64_t half = 0;  // the rows of a chunk
  bool causal = false;
};

/// One rank's view of the ring.
class RingAttention : public CoreAttention {
 public:
  RingAttention(const CoreAttentionConfig& config, const ContextRanks& ranks)
      : causal_(config.keys.causal),
        group_(ranks.group),
        cut_(ranks.cut),
        size_(ranks.group.size()),
        place_(ranks.group.rank()) {}

  Forward forward(const Tensor& queries, const Tensor& keys, const Tensor& values,
                  std::uint64_t pass) override {
    Forward forward{.context = {},
                    .saved = {.queries = queries, .keys = keys, .values = values, .pass = pass}};
    const DType sums = sum_dtype(queries.dtype());
    const Shape& shape = queries.shape();
    PartialAttention all{.context = room_for_context(queries, values, sums, cut_.has_padding()),
                         .stats = queries.device().empty(sums, {2, shape[0] * shape[1] * shape[2]})};
    if (cut_.has_padding())
      fill(all.stats, 1);  // no block writes the rows of padding, whose context is 0 / 1
    Tensor held = packed(keys, values);
    for (int step = 0; step < size_; ++step) {
      const bool is_last = step + 1 == size_;
      const Tensor next = is_last ? Tensor() : held.device().empty(held.dtype(), held.shape());
      Work work;
      if (!is_last) work = started(held, next_place(), next, previous_place(), "ring_attention.forward");
      for (const Document& document : cut_.documents())
        attend(forward.saved, held, block_of(document, source_in_forward(step)), step == 0, all);
      work.wait();
      if (!is_last) held = next;
    }
    forward.context = finish_softmax(all.context, all.stats, queries.dtype());
    forward.saved.context = forward.context;
    forward.saved.stats = all.stats;
    forward.saved.received = held;
    return forward;
  }

  /// The gradient of the keys and values of a rank is made by the rank before it in the first step, and comes
  /// home with the last one. Each message but the first takes the gradient that the step before has finished.
  Gradients backward(const Saved& saved, const Tensor& grad_context) override {
    const Tensor means = means_of(saved, grad_context);
    Tensor grad_queries = filled(saved.queries.device(), means.dtype(), saved.queries.shape(), 0);
    const std::int64_t elements = saved.received.count();
    Tensor held = saved.queries.device().empty(saved.received.dtype(), {2, elements});  // K + V, and gradient
    Tensor keys_and_values = held.rows(0, 1);
    copy(saved.received.reshaped({1, elements}), keys_and_values);
    for (int step = 0; step < size_; ++step) {
      const bool is_first = step == 0, is_last = step + 1 == size_;
      const Tensor next = held.device().empty(held.dtype(), held.shape());
      if (is_first && leaves_high_chunks()) {
        Tensor gradient = next.rows(1, 2);
        fill(gradient, 0);
      }
      // The first message has no gradient yet, and the last one needs no keys and values.
      const std::int64_t begin = is_last ? 1 : 0, end = is_first ? 1 : 2;
      Work work = started(held.rows(begin, end), previous_place(), next.rows(begin, end), next_place(),
                          "ring_attention.backward");
      std::vector<OfKeys> of_documents;
      for (const Document& document : cut_.documents())
        of_documents.push_back(gradients_of(saved, held.rows(0, 1).flat(),
                                            block_of(document, source_in_backward(step)), grad_context, means,
                                            grad_queries));
      work.wait();
      for (const OfKeys& own : of_documents) add_to_gradient(saved, own, step, next.rows(1, 2).flat());
      held = next;
    }
    const Tensor home = held.rows(1, 2).flat();
    return {cast(grad_queries, saved.queries.dtype()), keys_in(home, saved), values_in(home, saved)};
  }

 private:
  int next_place() const { return (place_ + 1) % size_; }
  int previous_place() const { return (place_ + size_ - 1) % size_; }
  /// The rank whose keys and values this rank has in a step.
  int source_in_forward(int step) const { return (place_ + size_ - step) % size_; }
  int source_in_backward(int step) const { return (place_ + step + 1) % size_; }

  Work started(const Tensor& sent, int to, const Tensor& received, int from, Site site) {
    const std::array<PointToPoint, 2> calls = {PointToPoint{Operation::send, sent.flat(), to},
                                               PointToPoint{Operation::recv, received.flat(), from}};
    return group_.start_batch(calls, site);
  }

  // ---- rows

  std::int64_t half(const Document& document) const { return document.length / (2 * size_); }
  /// Returns how many of a rank's rows of a document are no padding. They are its first rows.
  std::int64_t valid_rows(const Document& document, int rank) const {
    const std::int64_t rows = half(document);
    return document.real_rows(rank, rows) + document.real_rows(2 * size_ - 1 - rank, rows);
  }

  /// With a causal mask all rows attend to the low chunk of an earlier rank, and the rows of the high chunk
  /// to both chunks of a later one.
  RingBlock block_of(const Document& document, int source) const {
    const std::int64_t first = document.begin / size_, rows = half(document);
    const std::int64_t own = valid_rows(document, place_), of_source = valid_rows(document, source);
    RingBlock block{.queries = {first, first + own},
                    .keys = {first, first + of_source},
                    .grad_keys = {first, first + 2 * rows},
                    .half = rows,
                    .causal = causal_ && source == place_};
    if (causal_ && source < place_) {
      block.keys.end = std::min(block.keys.end, first + rows);
      block.grad_keys.end = first + rows;
    }
    if (causal_ && source > place_) {
      block.queries.begin = first + rows;
      block.queries.end = std::max(block.queries.begin, block.queries.end);
    }
    return block;
  }

  // ---- keys and values, one after the other in one tensor

  static Tensor packed(const Tensor& keys, const Tensor& values) {
    const Tensor both = keys.device().empty(keys.dtype(), {keys.count() + values.count()});
    Tensor front = both.rows(0, keys.count()), back = both.rows(keys.count(), both.count());
    copy(keys.flat(), front);
    copy(values.flat(), back);
    return both;
  }
  static Tensor keys_in(const Tensor& both, const Saved& saved) {
    return both.rows(0, saved.keys.count()).reshaped(saved.keys.shape());
  }
  static Tensor values_in(const Tensor& both, const Saved& saved) {
    return both.rows(saved.keys.count(), both.count()).reshaped(saved.values.shape());
  }
  static AttentionInputs inputs_of(const Saved& saved, const Tensor& held, const RingBlock& block) {
    return {sequence_rows(saved.queries, block.queries), sequence_rows(keys_in(held, saved), block.keys),
            sequence_rows(values_in(held, saved), block.keys)};
  }

  // ---- forward

  void attend(const Saved& saved, const Tensor& held, const RingBlock& block, bool is_first,
              PartialAttention& all) const {
    if (block.queries.count() == 0 || block.keys.count() == 0) return;
    const PartialAttention own = partial_attention(inputs_of(saved, held, block), {block.causal});
    const Shape& shape = saved.queries.shape();
    const std::int64_t rows = shape[0] * shape[1] * block.queries.count();
    Tensor stats = all.stats.reshaped({2, shape[0] * shape[1], shape[2], 1});
    const Shape of_rows = {2, shape[0] * shape[1], block.queries.count(), 1};
    if (is_first) {
      put_sequence_rows(own.context, all.context, block.queries);
      put_sequence_rows(own.stats.reshaped(of_rows), stats, block.queries);
      return;
    }
    Tensor context = sequence_rows(all.context, block.queries);
    Tensor merged = sequence_rows(stats, block.queries).reshaped({2, rows});
    merge_softmax(own.context, own.stats, context, merged);
    if (block.queries.count() == shape[2]) return;  // the rows share storage with the whole
    put_sequence_rows(context, all.context, block.queries);
    put_sequence_rows(merged.reshaped(of_rows), stats, block.queries);
  }

  // ---- backward

  /// Returns the sum of grad times probability of each query, which is that of grad times context,
  /// [B, n, S/cp, 1].
  static Tensor means_of(const Saved& saved, const Tensor& grad_context) {
    const Shape& shape = saved.context.shape();
    const std::int64_t rows = shape[0] * shape[1] * shape[2];
    Tensor means = filled(grad_context.device(), sum_dtype(grad_context.dtype()), {rows, 1, 1}, 0);
    add_matmul(grad_context.reshaped({rows, 1, shape[3]}), saved.context.reshaped({rows, shape[3], 1}),
               means);
    return means.reshaped({shape[0], shape[1], shape[2], 1});
  }

  /// The gradients of keys and values that one document has in one step.
  struct OfKeys {
    RingBlock block;
    Tensor keys;
    Tensor values;
  };

  OfKeys gradients_of(const Saved& saved, const Tensor& held, const RingBlock& block,
                      const Tensor& grad_context, const Tensor& means, Tensor& grad_queries) const {
    const auto room = [&](const Tensor& like) {
      const Shape& shape = like.shape();
      return filled(like.device(), like.dtype(), {shape[0], shape[1], block.grad_keys.count(), shape[3]}, 0);
    };
    if (block.queries.count() == 0 || block.keys.count() == 0)
      return {block, room(saved.keys), room(saved.values)};
    const Shape& shape = saved.queries.shape();
    const Tensor stats =
        sequence_rows(saved.stats.reshaped({2, shape[0] * shape[1], shape[2], 1}), block.queries)
            .reshaped({2, shape[0] * shape[1] * block.queries.count()});
    const BlockGradients own = partial_attention_backward(inputs_of(saved, held, block), {block.causal},
                                                          stats, sequence_rows(grad_context, block.queries),
                                                          sequence_rows(means, block.queries));
    add_sequence_rows(own.queries, grad_queries, block.queries);
    if (block.keys.count() == block.grad_keys.count()) return {block, own.keys, own.values};
    OfKeys padded{block, room(saved.keys), room(saved.values)};
    put_sequence_rows(own.keys, padded.keys, {0, block.keys.count()});
    put_sequence_rows(own.values, padded.values, {0, block.keys.count()});
    return padded;
  }

  /// Whether this rank makes no gradient of the high chunks in the first step: it has the keys of the first
  /// rank, whose high chunks only that rank's own queries see. The gradient travels with zeros there.
  bool leaves_high_chunks() const { return causal_ && size_ > 1 && place_ + 1 == size_; }

  /// Adds to the gradient of the keys and values of this step's rank, or writes what no step before has
  /// made: the first step makes both halves, but for the keys of the first rank.
  void add_to_gradient(const Saved& saved, const OfKeys& own, int step, const Tensor& gradient) const {
    const RowRange all = own.block.grad_keys;
    const std::int64_t rows = own.block.half;
    const bool high_is_new = step == 0 || (causal_ && source_in_backward(step) == 0);
    put_or_add(saved, own, {0, rows}, step == 0, gradient);
    put_or_add(saved, own, {rows, all.count()}, high_is_new, gradient);
  }
  static void put_or_add(const Saved& saved, const OfKeys& own, RowRange rows, bool is_new,
                         const Tensor& gradient) {
    if (rows.count() == 0) return;
    const std::int64_t first = own.block.grad_keys.begin;
    const RowRange to = {first + rows.begin, first + rows.end};
    Tensor keys = keys_in(gradient, saved), values = values_in(gradient, saved);
    const auto write = is_new ? put_sequence_rows : add_sequence_rows;
    write(sequence_rows(own.keys, rows), keys, to);
    write(sequence_rows(own.values, rows), values, to);
  }

  bool causal_;
  Communicator& group_;
  SequenceCut cut_;
  int size_;
  int place_;
};

}  // namespace

std::unique_ptr<CoreAttention> ring(const CoreAttentionConfig& config, const ContextRanks& ranks) {
  return std::make_unique<RingAttention>(config, ranks);
}

}  // namespace sim::context_attentions
