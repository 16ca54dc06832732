#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/context/context_attentions.h"
#include "sim/context/row_order.h"

namespace sim::context_attentions {

namespace {

/// Where a row lies among the ranks that exchange: on which of them, and in which of its rows.
struct Owner {
  int member = 0;
  std::int64_t row = 0;
};

class AllToAllAttention : public CoreAttention {
 public:
  AllToAllAttention(const SequenceCut& cut, int place, Communicator& exchange, const SequenceCut& inner_cut,
                    std::unique_ptr<CoreAttention> inner)
      : group_(exchange), rows_(cut.local_length()), inner_(std::move(inner)) {
    const int first = place / group_.size() * group_.size();
    std::vector<Owner> owners(static_cast<std::size_t>(cut.length()));
    for (int member = 0; member < group_.size(); ++member) {
      std::int64_t row = 0;
      for (const std::int64_t of_sequence : cut.rows_of(first + member))
        owners[static_cast<std::size_t>(of_sequence)] = {member, row++};
    }
    for (const std::int64_t of_sequence : inner_cut.rows_of(first / group_.size()))
      owners_.push_back(owners[static_cast<std::size_t>(of_sequence)]);
  }

  Forward forward(const Tensor& queries, const Tensor& keys, const Tensor& values,
                  std::uint64_t pass) override {
    require_heads(queries.shape()[1], keys.shape()[1]);
    const Tensor q = heads_of_all_rows(queries, "all_to_all_attention.queries");
    const Tensor k = heads_of_all_rows(keys, "all_to_all_attention.keys");
    const Tensor v = heads_of_all_rows(values, "all_to_all_attention.values");
    Forward forward = inner_->forward(q, k, v, pass);
    forward.context = rows_of_all_heads(forward.context, "all_to_all_attention.context");
    return forward;
  }

  Gradients backward(const Saved& saved, const Tensor& grad_context) override {
    const Gradients inner =
        inner_->backward(saved, heads_of_all_rows(grad_context, "all_to_all_attention.grad_context"));
    const Tensor q = rows_of_all_heads(inner.queries, "all_to_all_attention.grad_queries");
    const Tensor k = rows_of_all_heads(inner.keys, "all_to_all_attention.grad_keys");
    const Tensor v = rows_of_all_heads(inner.values, "all_to_all_attention.grad_values");
    return {q, k, v};
  }

 private:
  void require_heads(std::int64_t heads, std::int64_t groups) const {
    if (heads % group_.size() == 0 && groups % group_.size() == 0) return;
    refuse({.code = "cp_heads",
            .option = "--cp-comm-type",
            .numbers = fmt::format("{} heads and {} query groups on a rank, exchanged by {} ranks", heads,
                                   groups, group_.size()),
            .rule =
                "heads and query groups of a tensor-parallel rank are multiples of the ranks that exchange "
                "them; groups are not replicated",
            .hint = "--cp-comm-type p2p, or hierarchical sizes whose first one divides the groups"});
  }

  /// Turns [B, n, own rows, d] into [B, n / ranks, rows of all, d].
  Tensor heads_of_all_rows(const Tensor& x, Site site) {
    const Shape& shape = x.shape();
    const std::int64_t ranks = group_.size(), heads = shape[1] / ranks, batch = shape[0], d = shape[3];
    std::vector<std::int64_t> sent;  // by member, sequence, head and row
    for (std::int64_t member = 0; member < ranks; ++member)
      for (std::int64_t b = 0; b < batch; ++b)
        for (std::int64_t h = 0; h < heads; ++h)
          for (std::int64_t row = 0; row < rows_; ++row)
            sent.push_back((b * shape[1] + member * heads + h) * rows_ + row);
    const Tensor received = exchanged(reordered_rows(x.reshaped({x.count() / d, d}), sent), site);
    std::vector<std::int64_t> order;
    for (std::int64_t b = 0; b < batch; ++b)
      for (std::int64_t h = 0; h < heads; ++h)
        for (const Owner& owner : owners_)
          order.push_back(((owner.member * batch + b) * heads + h) * rows_ + owner.row);
    return reordered_rows(received, order).reshaped({batch, heads, std::ssize(owners_), d});
  }

  /// Does the inverse of heads_of_all_rows().
  Tensor rows_of_all_heads(const Tensor& x, Site site) {
    const Shape& shape = x.shape();
    const std::int64_t ranks = group_.size(), heads = shape[1], batch = shape[0], d = shape[3];
    std::vector<std::int64_t> sent(static_cast<std::size_t>(x.count() / d));
    for (std::int64_t b = 0; b < batch; ++b) {
      for (std::int64_t h = 0; h < heads; ++h) {
        for (std::int64_t i = 0; i < std::ssize(owners_); ++i) {
          const Owner& owner = owners_[static_cast<std::size_t>(i)];
          const std::int64_t to = ((owner.member * batch + b) * heads + h) * rows_ + owner.row;
          sent[static_cast<std::size_t>(to)] = (b * heads + h) * std::ssize(owners_) + i;
        }
      }
    }
    const Tensor received = exchanged(reordered_rows(x.reshaped({x.count() / d, d}), sent), site);
    std::vector<std::int64_t> order;
    for (std::int64_t b = 0; b < batch; ++b)
      for (std::int64_t member = 0; member < ranks; ++member)
        for (std::int64_t h = 0; h < heads; ++h)
          for (std::int64_t row = 0; row < rows_; ++row)
            order.push_back(((member * batch + b) * heads + h) * rows_ + row);
    return reordered_rows(received, order).reshaped({batch, heads * ranks, rows_, d});
  }

  Tensor exchanged(const Tensor& x, Site site) {
    const Tensor received = x.device().empty(x.dtype(), x.shape());
    group_.all_to_all(x, received, site);
    return received;
  }

  Communicator& group_;
  std::int64_t rows_;          // of this rank
  std::vector<Owner> owners_;  // of the rows that the inner attention sees
  std::unique_ptr<CoreAttention> inner_;
};

}  // namespace

std::unique_ptr<CoreAttention> all_to_all(const SequenceCut& cut, int place, Communicator& exchange,
                                          const SequenceCut& inner_cut,
                                          std::unique_ptr<CoreAttention> inner) {
  return std::make_unique<AllToAllAttention>(cut, place, exchange, inner_cut, std::move(inner));
}

}  // namespace sim::context_attentions
