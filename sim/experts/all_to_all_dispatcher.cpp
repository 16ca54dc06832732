#include <numeric>

#include "sim/experts/dispatchers.h"
#include "sim/experts/token_order.h"
#include "sim/experts/token_rows.h"
#include "sim/parallel/region.h"

namespace sim::dispatchers {

namespace {

/// The number of rows that each rank of tp-ep sends to each expert, [etp ep, E].
class Counts {
 public:
  Counts(const ExpertGrid& grid, const TokensToDispatch& tokens, const std::vector<std::int64_t>& own,
         Device& device)
      : experts_(grid.experts) {
    if (tokens.capacity) {
      numbers_.assign(static_cast<std::size_t>(grid.tp_ep.size() * grid.experts), *tokens.capacity);
      return;
    }
    numbers_ = numbers_of(gathered_rows(tensor_of_numbers(device, own).reshaped({1, grid.experts}),
                                        grid.tp_ep, "token_dispatcher.counts"));
  }
  /// The rows that a place of tp-ep sends to `count` experts from `first` on.
  std::int64_t rows(int place, std::int64_t first, std::int64_t count) const {
    const auto begin = numbers_.begin() + place * experts_ + first;
    return std::accumulate(begin, begin + count, std::int64_t{0});
  }

 private:
  std::int64_t experts_;
  std::vector<std::int64_t> numbers_;
};

/// The rows of one expert that one place of tp-ep has sent, where they lie after the exchange.
struct Chunk {
  std::int64_t begin;
  std::int64_t rows;
};

class AllToAllDispatcher : public TokenDispatcher {
 public:
  AllToAllDispatcher(const ExpertGrid& grid, TokensToDispatch tokens)
      : grid_(grid), tokens_(std::move(tokens)), order_(expert_order(tokens_.map, 0, grid.experts)) {}

  ExpertRows dispatch(const Tensor& hidden, const Tensor& probs) override {
    const std::vector<std::int64_t> rows_of_expert = plan(hidden.device());
    return {arrived(taken_rows(hidden, order_.tokens), "token_dispatcher.dispatch"),
            arrived(taken_entries(probs, order_.entries), "token_dispatcher.dispatch_probs"), rows_of_expert};
  }

  Tensor combine(const Tensor& outputs) const override {
    return added_rows(sent_back(outputs, "token_dispatcher.combine"), order_.tokens, tokens_.map.tokens());
  }

  Tensor combine_backward(const Tensor& grad) const override {
    return arrived(taken_rows(grad, order_.tokens), "token_dispatcher.combine_backward");
  }

  Gradients dispatch_backward(const Tensor& grad_rows, const Tensor& grad_probs) const override {
    const Tensor hidden = sent_back(grad_rows, "token_dispatcher.dispatch_backward");
    const Tensor probs = sent_back(grad_probs, "token_dispatcher.probs_backward");
    const std::int64_t tokens = tokens_.map.tokens();
    return {added_rows(hidden, order_.tokens, tokens),
            added_entries(probs, order_.entries, tokens, grid_.experts)};
  }

 private:
  /// Takes rows from the ranks that own their tokens to the ranks of their experts, and sorts them by expert.
  Tensor arrived(const Tensor& rows, Site site) const {
    const Tensor of_ep = exchanged_rows(rows, splits_, grid_.ep, site);
    return sorted(gathered_uneven(of_ep, rows_of_etp_, grid_.etp, site), sort_);
  }
  /// Takes rows the same way back, and adds what the ranks of etp have computed.
  Tensor sent_back(const Tensor& rows, Site site) const {
    const Tensor own = reduce_scattered_uneven(unsorted(rows), rows_of_etp_, grid_.etp, site);
    return returned_rows(own, splits_, grid_.ep, site);
  }
  Tensor sorted(const Tensor& rows, const std::vector<std::int64_t>& order) const {
    return is_sorted_ ? rows : taken_rows(rows, order);
  }
  /// The result is no tensor of the caller, so that it may be changed.
  Tensor unsorted(const Tensor& rows) const {
    return is_sorted_ && grid_.etp.size() == 1 ? rows : taken_rows(rows, unsort_);
  }

  /// Returns the number of rows of each local expert.
  std::vector<std::int64_t> plan(Device& device) {
    const Counts counts(grid_, tokens_, order_.of_expert, device);
    const std::int64_t local = grid_.local_experts(), first = grid_.first_local_expert();
    const int ep = grid_.ep.size(), etp = grid_.etp.size();
    std::vector<std::vector<Chunk>> chunks(static_cast<std::size_t>(local));  // by local expert
    std::int64_t begin = 0;
    for (int i = 0; i < etp; ++i) {
      const std::int64_t before = begin;
      for (int j = 0; j < ep; ++j) {
        for (std::int64_t e = 0; e < local; ++e) {
          const std::int64_t rows = counts.rows(j * etp + i, first + e, 1);
          chunks[static_cast<std::size_t>(e)].push_back({begin, rows});
          begin += rows;
        }
      }
      rows_of_etp_.push_back(begin - before);
    }
    for (int j = 0; j < ep; ++j) {
      splits_.sent.push_back(counts.rows(grid_.tp_ep.rank(), j * local, local));
      splits_.received.push_back(counts.rows(j * etp + grid_.etp.rank(), first, local));
    }
    std::vector<std::int64_t> rows_of_expert;
    for (const std::vector<Chunk>& of_expert : chunks) {
      const std::size_t before = sort_.size();
      for (const Chunk& chunk : of_expert)
        for (std::int64_t row = 0; row < chunk.rows; ++row) sort_.push_back(chunk.begin + row);
      rows_of_expert.push_back(static_cast<std::int64_t>(sort_.size() - before));
    }
    is_sorted_ = local == 1;
    unsort_ = inverse_of(sort_);
    return rows_of_expert;
  }

  ExpertGrid grid_;
  TokensToDispatch tokens_;
  ExpertOrder order_;  // of this rank's tokens, over all experts
  RowSplits splits_;   // over ep
  std::vector<std::int64_t> rows_of_etp_;
  std::vector<std::int64_t> sort_, unsort_;  // between the order of arrival and that of the local experts
  bool is_sorted_ = false;                   // the order of arrival is that of the only local expert
};

}  // namespace

std::unique_ptr<TokenDispatcher> all_to_all(const ExpertGrid& grid, TokensToDispatch tokens) {
  return std::make_unique<AllToAllDispatcher>(grid, std::move(tokens));
}

}  // namespace sim::dispatchers
