#include "tests/defects/wrong_context_attention.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "sim/context/attention_block.h"
#include "sim/context/context_attentions.h"
#include "sim/context/row_order.h"
#include "sim/parallel/region.h"
#include "sim/tensor/checks.h"
#include "sim/tensor/matmul.h"
#include "sim/tensor/ops.h"
#include "sim/tensor/permutation.h"
#include "tests/defects/exchanged_groups.h"
#include "verify/cases/cp_plan.h"

namespace test {

namespace {

using sim::AttentionInputs;
using sim::CoreAttention;
using sim::CpCommType;
using sim::Document;
using sim::PartialAttention;
using sim::RowRange;
using sim::SequenceCut;
using sim::Shape;
using sim::Tensor;
using verify::CaseSetting;
using verify::CpPlan;

/// Publishes what the case cp_attention publishes, as this attention computes it.
void publish_attention(sim::Rank& rank, const CpPlan& plan, CoreAttention& attention) {
  const CaseSetting& s = plan.s;
  const SequenceCut cut = plan.cut();
  const auto own = [&](const char* name, std::int64_t heads, std::int64_t channels) {
    const Tensor all = verify::drawn(rank, s, name, {plan.sequence(), plan.batch() * heads * channels});
    const Tensor rows = sim::reordered_rows(all, cut.rows_of(rank.groups.get("cp").rank()));
    return sim::permuted(rows.reshaped({cut.local_length(), plan.batch(), heads, channels}), {1, 2, 0, 3});
  };
  const auto publish = [&](const char* name, const Tensor& heads) {
    const Tensor rows = sim::permuted(heads, {2, 0, 1, 3});
    plan.publish(rank, name, rows.reshaped({cut.local_length(), rows.count() / cut.local_length()}));
  };
  const Tensor queries = own("queries", plan.heads(), s["channels"]);
  const Tensor keys = own("keys", plan.groups(), s["channels"]);
  const Tensor values = own("values", plan.groups(), s["value_channels"]);
  const auto forward = attention.forward(queries, keys, values, /*pass=*/0);
  const auto grads =
      attention.backward(forward.saved, own("grad_context", plan.heads(), s["value_channels"]));
  publish("context", forward.context);
  publish("grad_queries", grads.queries);
  publish("grad_keys", grads.keys);
  publish("grad_values", grads.values);
}

sim::CoreAttentionConfig config_of(const CpPlan& plan) {
  return {.name = "core_attention", .keys = {.causal = plan.s["causal"] == 1, .window = plan.window()}};
}

void publish_right_attention(sim::Rank& rank, const CpPlan& plan, const SequenceCut& cut) {
  publish_attention(rank, plan, *sim::make_core_attention(rank, config_of(plan), cut, plan.kind()));
}

bool has_kind(const CpPlan& plan, CpCommType kind) { return plan.cp() > 1 && plan.kind() == kind; }

Tensor zeros_like(const Tensor& x) { return sim::filled(x.device(), x.dtype(), x.shape(), 0); }

/// Reorders the rows of the third dimension.
Tensor in_order(const Tensor& x, const std::vector<std::int64_t>& order) {
  const Shape& shape = x.shape();
  std::vector<std::int64_t> rows;
  for (std::int64_t head = 0; head < shape[0] * shape[1]; ++head)
    for (const std::int64_t row : order) rows.push_back(head * shape[2] + row);
  return sim::reordered_rows(x.reshaped({x.count() / shape[3], shape[3]}), rows).reshaped(shape);
}

// ---- a ring

/// A ring without padding.
class Ring : public CoreAttention {
 public:
  Ring(RingMistake mistake, bool causal, sim::Communicator& group, SequenceCut cut)
      : mistake_(mistake), causal_(causal), group_(group), cut_(std::move(cut)) {}

  Forward forward(const Tensor& queries, const Tensor& keys, const Tensor& values,
                  std::uint64_t pass) override {
    Forward forward{.context = {},
                    .saved = {.queries = queries, .keys = keys, .values = values, .pass = pass}};
    const sim::DType sums = sim::sum_dtype(queries.dtype());
    const Shape& q = queries.shape();
    PartialAttention all{
        .context = sim::filled(queries.device(), sums, {q[0], q[1], q[2], values.shape()[3]}, 0),
        .stats = sim::filled(queries.device(), sums, {2, q[0] * q[1] * q[2]}, 0)};
    Tensor held = sim::filled(keys.device(), keys.dtype(), {keys.count() + values.count()}, 0);
    Tensor front = held.rows(0, keys.count()), back = held.rows(keys.count(), held.count());
    sim::copy(keys.flat(), front);
    sim::copy(values.flat(), back);
    std::vector<sim::Work> late;
    for (int step = 0; step < size(); ++step) {
      const bool is_last = step + 1 == size();
      const Tensor next = is_last ? held : zeros_like(held);
      sim::Work work;
      if (!is_last) work = exchanged(held, receiver(), next, sender(), "ring_attention.forward");
      const int source = has(RingMistake::masked_as_the_rank_ahead) ? place(step) : place(-step);
      for (const Document& document : cut_.documents())
        attend(forward.saved, held, seen_of(document, source), document, step == 0, all);
      if (has(RingMistake::not_waited_for)) {
        late.push_back(std::move(work));
      } else {
        work.wait();
      }
      held = next;
    }
    for (sim::Work& work : late) work.wait();
    forward.context = has(RingMistake::added_without_rescaling)
                          ? sim::cast(all.context, queries.dtype())
                          : sim::finish_softmax(all.context, all.stats, queries.dtype());
    forward.saved.context = forward.context;
    forward.saved.stats = all.stats;
    forward.saved.received = held;
    return forward;
  }

  Gradients backward(const Saved& saved, const Tensor& grad_context) override {
    const Tensor means = means_of(saved, grad_context);
    Tensor grad_queries = sim::filled(means.device(), means.dtype(), saved.queries.shape(), 0);
    const std::int64_t elements = saved.received.count();
    Tensor held = sim::filled(saved.received.device(), saved.received.dtype(), {2, elements}, 0);
    Tensor first = held.rows(0, 1);  // keys and values; the other row is their gradient
    sim::copy(saved.received.reshaped({1, elements}), first);
    Tensor home;
    for (int step = 0; step < size(); ++step) {
      const bool is_first = step == 0, is_last = step + 1 == size();
      Tensor next = zeros_like(held);
      if (has(RingMistake::added_to_old_memory)) sim::fill(next, 1);
      const std::int64_t begin = is_last ? 1 : 0, end = is_first ? 1 : 2;
      sim::Work work = exchanged(held.rows(begin, end), place(-1), next.rows(begin, end), place(1),
                                 "ring_attention.backward");
      const bool is_stale = has(RingMistake::stale_keys_backward);
      const Tensor used = is_stale ? saved.received : held.rows(0, 1).flat();
      std::vector<sim::BlockGradients> of_documents;
      for (const Document& document : cut_.documents())
        of_documents.push_back(
            gradients_of(saved, used, seen_of(document, place(step + 1)), grad_context, means, grad_queries));
      work.wait();
      home = held.rows(1, 2).flat();
      for (std::size_t i = 0; i < of_documents.size(); ++i)
        put(saved, of_documents[i], cut_.documents()[i], step, next.rows(1, 2).flat());
      held = next;
    }
    if (!has(RingMistake::home_one_step_early)) home = held.rows(1, 2).flat();
    return {sim::cast(grad_queries, saved.queries.dtype()), keys_in(home, saved), values_in(home, saved)};
  }

 private:
  bool has(RingMistake mistake) const { return mistake_ == mistake; }
  int size() const { return group_.size(); }
  int place(int distance) const { return (group_.rank() + size() + distance) % size(); }
  /// The ranks to which keys go and from which they come, forward.
  int receiver() const {
    return place(has(RingMistake::turns_the_other_way) || has(RingMistake::sent_to_the_source) ? -1 : 1);
  }
  int sender() const { return place(has(RingMistake::turns_the_other_way) ? 1 : -1); }

  sim::Work exchanged(const Tensor& sent, int to, const Tensor& received, int from, sim::Site site) {
    const std::array<sim::PointToPoint, 2> calls = {
        sim::PointToPoint{sim::Operation::send, sent.flat(), to},
        sim::PointToPoint{sim::Operation::recv, received.flat(), from}};
    return group_.start_batch(calls, site);
  }

  /// The rows of a document that one step sees.
  struct Seen {
    RowRange queries;
    RowRange keys;
    bool causal = false;
  };
  RowRange rows_of(const Document& document) const {
    return {document.begin / size(), (document.begin + document.length) / size()};
  }
  Seen seen_of(const Document& document, int source) const {
    Seen seen{rows_of(document), rows_of(document), causal_ && source == group_.rank()};
    if (!causal_ || source == group_.rank()) return seen;
    const std::int64_t half = seen.keys.begin + seen.keys.count() / 2;
    const bool is_lower = (source < group_.rank()) != has(RingMistake::lower_and_upper_exchanged);
    if (is_lower) {
      seen.keys.end = half;
    } else {
      seen.queries.begin = half;
    }
    return seen;
  }

  static Tensor keys_in(const Tensor& both, const Saved& saved) {
    return both.rows(0, saved.keys.count()).reshaped(saved.keys.shape());
  }
  static Tensor values_in(const Tensor& both, const Saved& saved) {
    return both.rows(saved.keys.count(), both.count()).reshaped(saved.values.shape());
  }
  static AttentionInputs inputs_of(const Saved& saved, const Tensor& held, const Seen& seen) {
    return {sim::sequence_rows(saved.queries, seen.queries),
            sim::sequence_rows(keys_in(held, saved), seen.keys),
            sim::sequence_rows(values_in(held, saved), seen.keys)};
  }
  /// Returns the stats of all heads, as one tensor whose third dimension is the rows.
  static Tensor by_rows(const Tensor& stats, const Shape& queries) {
    return stats.reshaped({2, queries[0] * queries[1], stats.count() / (2 * queries[0] * queries[1]), 1});
  }

  /// Puts rows of `value` before the rows of x, as many as x has.
  static Tensor after_rows_of(double value, const Tensor& x) {
    const Shape& shape = x.shape();
    Tensor all = sim::filled(x.device(), x.dtype(), {shape[0], shape[1], 2 * shape[2], shape[3]}, value);
    sim::put_sequence_rows(x, all, {shape[2], 2 * shape[2]});
    return all;
  }

  void attend(const Saved& saved, const Tensor& held, const Seen& seen, const Document& document,
              bool is_first, PartialAttention& all) const {
    const Shape& shape = saved.queries.shape();
    const PartialAttention partial = sim::partial_attention(inputs_of(saved, held, seen), {seen.causal});
    Tensor own = has(RingMistake::added_without_rescaling)
                     ? sim::finish_softmax(partial.context, partial.stats, partial.context.dtype())
                     : partial.context;
    Tensor own_stats = by_rows(partial.stats, shape);
    RowRange rows = seen.queries;
    if (has(RingMistake::merged_over_all_rows) && rows.count() < rows_of(document).count()) {
      // Of the low chunk the step has the memory that it began with: no context, and a log-sum-exp of 0.
      own = after_rows_of(0, own);
      own_stats = after_rows_of(1, own_stats);
      Tensor shifts = own_stats.rows(0, 1);
      sim::fill(shifts, 0);
      sim::put_sequence_rows(by_rows(partial.stats, shape).rows(0, 1), shifts,
                             {rows.count(), 2 * rows.count()});
      rows = rows_of(document);
    }
    Tensor stats = by_rows(all.stats, shape);
    if (is_first) {
      sim::put_sequence_rows(own, all.context, rows);
      sim::put_sequence_rows(own_stats, stats, rows);
      return;
    }
    const Tensor before = sim::sequence_rows(all.context, rows);
    Tensor context = sim::scale(before, {1, 1});
    Tensor merged = sim::scale(sim::sequence_rows(stats, rows), {1, 1});
    Tensor flat = merged.reshaped({2, merged.count() / 2});
    sim::merge_softmax(own, own_stats.reshaped(flat.shape()), context, flat);
    if (has(RingMistake::added_without_rescaling)) context = sim::add(before, own);
    sim::put_sequence_rows(context, all.context, rows);
    sim::put_sequence_rows(merged, stats, rows);
  }

  /// Returns the sum of grad times context of each query, [B, n, S/cp, 1].
  static Tensor means_of(const Saved& saved, const Tensor& grad_context) {
    const Shape& shape = saved.context.shape();
    const std::int64_t rows = shape[0] * shape[1] * shape[2];
    Tensor means = sim::filled(grad_context.device(), sim::sum_dtype(grad_context.dtype()), {rows, 1, 1}, 0);
    sim::add_matmul(grad_context.reshaped({rows, 1, shape[3]}), saved.context.reshaped({rows, shape[3], 1}),
                    means);
    return means.reshaped({shape[0], shape[1], shape[2], 1});
  }

  static sim::BlockGradients gradients_of(const Saved& saved, const Tensor& held, const Seen& seen,
                                          const Tensor& grad_context, const Tensor& means,
                                          Tensor& grad_queries) {
    const Tensor stats = sim::sequence_rows(by_rows(saved.stats, saved.queries.shape()), seen.queries);
    const sim::BlockGradients own = sim::partial_attention_backward(
        inputs_of(saved, held, seen), {seen.causal}, stats.reshaped({2, stats.count() / 2}),
        sim::sequence_rows(grad_context, seen.queries), sim::sequence_rows(means, seen.queries));
    sim::add_sequence_rows(own.queries, grad_queries, seen.queries);
    return own;
  }

  /// Adds the gradient of keys and values to the one that came with the message. Nothing is there before the
  /// first write of a half: the first step writes it, and for the high chunk of rank 0 its own last step.
  void put(const Saved& saved, const sim::BlockGradients& own, const Document& document, int step,
           const Tensor& gradient) const {
    const RowRange all = rows_of(document);
    const std::int64_t half = all.count() / 2;
    const bool has_high = own.keys.shape()[2] > half;
    const bool high_comes_late = causal_ && place(step + 1) == 0;
    for (const bool is_high : {false, true}) {
      if (is_high && (!has_high || (high_comes_late && has(RingMistake::high_half_not_copied)))) continue;
      const bool is_new = step == 0 || (is_high && high_comes_late);
      const auto write =
          is_new && !has(RingMistake::added_to_old_memory) ? sim::put_sequence_rows : sim::add_sequence_rows;
      const RowRange of_step = is_high ? RowRange{half, 2 * half} : RowRange{0, half};
      const RowRange of_rank = {all.begin + of_step.begin, all.begin + of_step.end};
      Tensor keys = keys_in(gradient, saved), values = values_in(gradient, saved);
      write(sim::sequence_rows(own.keys, of_step), keys, of_rank);
      write(sim::sequence_rows(own.values, of_step), values, of_rank);
    }
  }

  RingMistake mistake_;
  bool causal_;
  sim::Communicator& group_;
  SequenceCut cut_;
};

// ---- gathered keys and values

class Gathered : public CoreAttention {
 public:
  Gathered(GatherMistake mistake, sim::SeenKeys keys, sim::Communicator& group, SequenceCut cut)
      : mistake_(mistake), keys_(keys), group_(group), cut_(std::move(cut)) {}

  Forward forward(const Tensor& queries, const Tensor& keys, const Tensor& values,
                  std::uint64_t pass) override {
    const Shape& q = queries.shape();
    Forward forward{
        .context = sim::filled(queries.device(), queries.dtype(), {q[0], q[1], q[2], values.shape()[3]}, 0),
        .saved = {.queries = queries, .keys = keys, .values = values, .pass = pass}};
    const AttentionInputs all = gathered(forward.saved);
    for (const Chunk& chunk : chunks()) {
      const AttentionInputs block = inputs_of(all, chunk);
      const Tensor p = sim::softmax(sim::scores_of(block), q[3], keys_);
      sim::put_sequence_rows(sim::context_of(p, block.values), forward.context, chunk.queries);
      forward.saved.probabilities.push_back(p);
    }
    forward.saved.context = forward.context;
    return forward;
  }

  Gradients backward(const Saved& saved, const Tensor& grad_context) override {
    const AttentionInputs all = gathered(saved);
    Tensor queries = zeros_like(saved.queries), keys = zeros_like(all.keys), values = zeros_like(all.values);
    const std::vector<Chunk> chunks = this->chunks();
    for (std::size_t i = 0; i < chunks.size(); ++i) {
      const AttentionInputs block = inputs_of(all, chunks[i]);
      const Tensor grad = sim::sequence_rows(grad_context, chunks[i].queries);
      const Tensor& p = saved.probabilities[i];
      const Tensor grad_scores =
          sim::softmax_backward(p, sim::grad_weights_of(block, grad), saved.queries.shape()[3]);
      const sim::BlockGradients own = sim::block_gradients(block, p, grad_scores, grad);
      sim::put_sequence_rows(sim::cast(own.queries, queries.dtype()), queries, chunks[i].queries);
      sim::add_sequence_rows(own.keys, keys, chunks[i].keys);
      sim::add_sequence_rows(own.values, values, chunks[i].keys);
    }
    return {queries, scattered(keys, saved.keys, "all_gather_attention.grad_keys"),
            scattered(values, saved.values, "all_gather_attention.grad_values")};
  }

 private:
  struct Chunk {
    RowRange queries;
    RowRange keys;
  };
  std::vector<Chunk> chunks() const {
    const std::int64_t last = 2 * std::int64_t{group_.size()} - 1;
    // In a chunk of one row nothing tells this mistake from a row that another rank should have.
    const bool is_top_left = mistake_ == GatherMistake::causal_top_left;
    std::vector<Chunk> all;
    for (const Document& document : cut_.documents()) {
      const std::int64_t rows = document.length / (last + 1), first = document.begin / group_.size();
      for (const bool is_high : {false, true}) {
        const std::int64_t chunk = is_high ? last - group_.rank() : group_.rank();
        const std::int64_t begin = first + (is_high ? rows : 0);
        const std::int64_t valid = std::clamp<std::int64_t>(document.real_length - chunk * rows, 0, rows);
        const std::int64_t before = is_top_left && rows > 1 ? 0 : chunk * rows;
        const std::int64_t seen = keys_.causal ? before + valid : document.real_length;
        if (valid > 0) all.push_back({{begin, begin + valid}, {document.begin, document.begin + seen}});
      }
    }
    return all;
  }
  static AttentionInputs inputs_of(const AttentionInputs& all, const Chunk& chunk) {
    return {sim::sequence_rows(all.queries, chunk.queries), sim::sequence_rows(all.keys, chunk.keys),
            sim::sequence_rows(all.values, chunk.keys)};
  }

  /// Returns for each row of the sequence its place among the gathered rows.
  std::vector<std::int64_t> places() const {
    std::vector<std::int64_t> all = cut_.places_of_rows();
    if (mistake_ == GatherMistake::rows_in_rank_order) std::iota(all.begin(), all.end(), 0);
    return all;
  }
  AttentionInputs gathered(const Saved& saved) {
    return {saved.queries, gathered(saved.keys, "all_gather_attention.keys"),
            gathered(saved.values, "all_gather_attention.values")};
  }
  Tensor gathered(const Tensor& own, sim::Site site) {
    const Shape& shape = own.shape();
    const std::int64_t heads = shape[0] * shape[1], rows = shape[2];
    const Tensor by_rank = sim::gathered_rows(own.reshaped({heads * rows, shape[3]}), group_, site);
    std::vector<std::int64_t> order;
    for (std::int64_t head = 0; head < heads; ++head)
      for (const std::int64_t place : places())
        order.push_back((place / rows * heads + head) * rows + place % rows);
    return sim::reordered_rows(by_rank, order).reshaped({shape[0], shape[1], cut_.length(), shape[3]});
  }
  Tensor scattered(const Tensor& all, const Tensor& like, sim::Site site) {
    const Shape& shape = all.shape();
    const std::int64_t heads = shape[0] * shape[1], rows = like.shape()[2];
    const std::vector<std::int64_t> places = this->places();
    std::vector<std::int64_t> order(static_cast<std::size_t>(heads * shape[2]));
    for (std::int64_t head = 0; head < heads; ++head) {
      for (std::int64_t row = 0; row < shape[2]; ++row) {
        const std::int64_t place = places[static_cast<std::size_t>(row)];
        order[static_cast<std::size_t>((place / rows * heads + head) * rows + place % rows)] =
            head * shape[2] + row;
      }
    }
    const Tensor by_rank = sim::reordered_rows(all.reshaped({heads * shape[2], shape[3]}), order);
    return sim::reduce_scattered_rows(by_rank, group_, site).reshaped(like.shape());
  }

  GatherMistake mistake_;
  sim::SeenKeys keys_;
  sim::Communicator& group_;
  SequenceCut cut_;
};

// ---- exchanged heads

/// Attention on rows that lie rank after rank, as if that were the order of the sequence.
class InRankOrder : public CoreAttention {
 public:
  InRankOrder(const SequenceCut& cut, std::unique_ptr<CoreAttention> inner)
      : to_sequence_(cut.places_of_rows()), to_ranks_(to_sequence_.size()), inner_(std::move(inner)) {
    for (std::size_t row = 0; row < to_sequence_.size(); ++row)
      to_ranks_[static_cast<std::size_t>(to_sequence_[row])] = static_cast<std::int64_t>(row);
  }
  Forward forward(const Tensor& queries, const Tensor& keys, const Tensor& values,
                  std::uint64_t pass) override {
    Forward forward = inner_->forward(in_order(queries, to_ranks_), in_order(keys, to_ranks_),
                                      in_order(values, to_ranks_), pass);
    forward.context = in_order(forward.context, to_sequence_);
    return forward;
  }
  Gradients backward(const Saved& saved, const Tensor& grad_context) override {
    const Gradients grads = inner_->backward(saved, in_order(grad_context, to_ranks_));
    return {in_order(grads.queries, to_sequence_), in_order(grads.keys, to_sequence_),
            in_order(grads.values, to_sequence_)};
  }

 private:
  std::vector<std::int64_t> to_sequence_;
  std::vector<std::int64_t> to_ranks_;
  std::unique_ptr<CoreAttention> inner_;
};

}  // namespace

void ring_with(RingMistake mistake, sim::Rank& rank, const CaseSetting& s) {
  const CpPlan plan{s};
  if (!has_kind(plan, CpCommType::p2p) || plan.cut().has_padding())
    return publish_right_attention(rank, plan, plan.cut());
  Ring ring(mistake, s["causal"] == 1, rank.groups.get("cp"), plan.cut());
  publish_attention(rank, plan, ring);
}

void all_gather_with(GatherMistake mistake, sim::Rank& rank, const CaseSetting& s) {
  const CpPlan plan{s};
  if (!has_kind(plan, CpCommType::all_gather)) return publish_right_attention(rank, plan, plan.cut());
  Gathered gathered(mistake, config_of(plan).keys, rank.groups.get("cp"), plan.cut());
  publish_attention(rank, plan, gathered);
}

void heads_of_rows_in_rank_order(sim::Rank& rank, const CaseSetting& s) {
  using namespace sim::context_attentions;
  const CpPlan plan{s};
  const SequenceCut cut = plan.cut(), whole = cut.over(1);
  if (!has_kind(plan, CpCommType::a2a)) return publish_right_attention(rank, plan, cut);
  sim::Communicator& cp = rank.groups.get("cp");
  auto inner = std::make_unique<InRankOrder>(cut, dense(rank, config_of(plan), whole));
  publish_attention(rank, plan, *all_to_all(cut, cp.rank(), cp, whole, std::move(inner)));
}

void attends_across_documents(sim::Rank& rank, const CaseSetting& s) {
  const CpPlan plan{s};
  const bool applies = has_kind(plan, CpCommType::p2p) && !plan.cut().has_padding();
  publish_right_attention(rank, plan,
                          applies ? SequenceCut::of_sequence(plan.sequence(), plan.cp()) : plan.cut());
}

void padding_attended(sim::Rank& rank, const CaseSetting& s) {
  const CpPlan plan{s};
  const SequenceCut cut = plan.cut();
  std::vector<std::int64_t> padded = {0};
  for (const Document& document : cut.documents()) padded.push_back(padded.back() + document.length);
  const bool applies = plan.cp() > 1;
  publish_right_attention(rank, plan, applies ? SequenceCut::of_documents(padded, {}, plan.cp()) : cut);
}

void one_group_for_both_levels(sim::Rank& rank, const CaseSetting& s) {
  const CpPlan plan{s};
  ExchangedGroups groups(rank, "hcp-L1", "hcp-L0");
  sim::Rank other{rank.id, rank.layout, rank.device, groups, rank.random, rank.record};
  const bool applies = plan.inner() * plan.inner() == plan.cp();
  publish_right_attention(applies ? other : rank, plan, plan.cut());
}

}  // namespace test
