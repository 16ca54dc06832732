#include <numeric>

#include "sim/experts/dispatchers.h"
#include "sim/experts/host_copies.h"
#include "sim/experts/token_permutation.h"
#include "sim/parallel/region.h"
#include "sim/tensor/ops.h"

namespace sim::dispatchers {

namespace {

/// The number of rows that each rank of tp-ep sends to each expert, [etp ep, E].
class Counts {
 public:
  Counts(const ExpertGrid& grid, const TokensToDispatch& tokens, Device& device) : experts_(grid.experts) {
    if (tokens.capacity) {
      numbers_.assign(static_cast<std::size_t>(grid.tp_ep.size() * grid.experts),
                      static_cast<std::int32_t>(*tokens.capacity));
      return;
    }
    const std::vector<std::int64_t> own = tokens.map.tokens_per_expert();
    const Tensor counts = device_ids(device, {1, grid.experts}, {own.begin(), own.end()});
    numbers_ = host_ids(gathered_rows(counts, grid.tp_ep, "token_dispatcher.counts"));
  }
  /// Returns the rows that a place of tp-ep sends to `count` experts from `first` on.
  std::int64_t rows(int place, std::int64_t first, std::int64_t count) const {
    const auto begin = numbers_.begin() + place * experts_ + first;
    return std::accumulate(begin, begin + count, std::int64_t{0});
  }

 private:
  std::int64_t experts_;
  std::vector<std::int32_t> numbers_;
};

/// The rows of a rank as they arrive, cut into chunks of one sender and one expert: by the sender's etp rank,
/// then by its ep rank, then by expert. Experts take them in the order of expert, then etp rank, then ep
/// rank.
struct Arrival {
  std::vector<std::int64_t> rows_of_chunk;
  std::vector<std::int64_t> chunk_at;  // the chunk at each place of the order of experts
  std::vector<std::int64_t> rows_of_etp;
  std::vector<std::int64_t> rows_per_expert;
};

Arrival arrival_of(const ExpertGrid& grid, const Counts& counts) {
  Arrival arrival;
  const std::int64_t local = grid.local_experts(), senders = grid.tp_ep.size();
  arrival.rows_per_expert.assign(static_cast<std::size_t>(local), 0);
  for (int i = 0; i < grid.etp.size(); ++i) {
    arrival.rows_of_etp.push_back(0);
    for (int j = 0; j < grid.ep.size(); ++j) {
      for (std::int64_t e = 0; e < local; ++e) {
        const std::int64_t rows = counts.rows(j * grid.etp.size() + i, grid.first_local_expert() + e, 1);
        arrival.rows_of_chunk.push_back(rows);
        arrival.rows_of_etp.back() += rows;
        arrival.rows_per_expert[static_cast<std::size_t>(e)] += rows;
      }
    }
  }
  for (std::int64_t e = 0; e < local; ++e)
    for (std::int64_t sender = 0; sender < senders; ++sender) arrival.chunk_at.push_back(sender * local + e);
  return arrival;
}

class AllToAllDispatcher : public TokenDispatcher {
 public:
  AllToAllDispatcher(const ExpertGrid& grid, TokensToDispatch tokens)
      : grid_(grid), tokens_(std::move(tokens)) {}

  ExpertRows dispatch(const Tensor& hidden, const Tensor& probs) override {
    require_tokens_of(tokens_.map, hidden, probs);
    order_ = tokens_.capacity ? padded_row_order(tokens_.map, *tokens_.capacity, hidden.device())
                              : row_order(tokens_.map, hidden.device());
    const Counts counts(grid_, tokens_, hidden.device());
    arrival_ = arrival_of(grid_, counts);
    const std::int64_t local = grid_.local_experts();
    splits_ = {};
    for (int j = 0; j < grid_.ep.size(); ++j) {
      const int sender = j * grid_.etp.size() + grid_.etp.rank();
      splits_.sent.push_back(counts.rows(grid_.tp_ep.rank(), j * local, local));
      splits_.received.push_back(counts.rows(sender, grid_.first_local_expert(), local));
    }
    const Tensor rows = sent(permute(hidden, order_), "token_dispatcher.dispatch");
    const Tensor row_probs = sent(permute_probs(probs, order_), "token_dispatcher.dispatch_probs");
    return {sorted(gathered(rows, "token_dispatcher.dispatch")),
            sorted(gathered(row_probs, "token_dispatcher.dispatch_probs")), arrival_.rows_per_expert};
  }

  Tensor combine(const Tensor& outputs) const override {
    const Tensor sums = reduced(unsorted(outputs), "token_dispatcher.combine");
    return unpermute(sent_back(sums, "token_dispatcher.combine"), order_);
  }

  Tensor combine_backward(const Tensor& grad) const override {
    const Tensor rows = sent(unpermute_backward(grad, order_), "token_dispatcher.combine_backward");
    return sorted(gathered(rows, "token_dispatcher.combine_backward"));
  }

  Gradients dispatch_backward(const Tensor& grad_rows, const Tensor& grad_probs) const override {
    const Tensor probs = reduced(unsorted(grad_probs), "token_dispatcher.probs_backward");
    const Tensor rows = reduced(unsorted(grad_rows), "token_dispatcher.dispatch_backward");
    const Tensor own_probs = sent_back(probs, "token_dispatcher.probs_backward");
    const Tensor own_rows = sent_back(rows, "token_dispatcher.dispatch_backward");
    return {permute_backward(own_rows, order_), permute_probs_backward(own_probs, order_)};
  }

 private:
  // The four steps from the ranks that own tokens to those of their experts, and back.
  Tensor sent(const Tensor& rows, Site site) const { return exchanged_rows(rows, splits_, grid_.ep, site); }
  Tensor sent_back(const Tensor& rows, Site site) const {
    return returned_rows(rows, splits_, grid_.ep, site);
  }
  Tensor gathered(const Tensor& rows, Site site) const {
    return gathered_uneven(rows, arrival_.rows_of_etp, grid_.etp, site);
  }
  Tensor reduced(const Tensor& rows, Site site) const {
    return reduce_scattered_uneven(rows, arrival_.rows_of_etp, grid_.etp, site);
  }
  /// Sorts rows in the order of arrival by expert.
  Tensor sorted(const Tensor& rows) const {
    if (grid_.local_experts() == 1) return rows;
    return sort_chunks_by_idxs(rows, arrival_.rows_of_chunk, arrival_.chunk_at);
  }
  /// Sorts rows back.
  Tensor unsorted(const Tensor& rows) const {
    if (grid_.local_experts() == 1) return rows;
    return sort_chunks_by_idxs_backward(rows, arrival_.rows_of_chunk, arrival_.chunk_at);
  }

  ExpertGrid grid_;
  TokensToDispatch tokens_;
  RowOrder order_;    // of this rank's tokens, over all experts
  RowSplits splits_;  // over ep
  Arrival arrival_;
};

}  // namespace

std::unique_ptr<TokenDispatcher> all_to_all(const ExpertGrid& grid, TokensToDispatch tokens) {
  return std::make_unique<AllToAllDispatcher>(grid, std::move(tokens));
}

}  // namespace sim::dispatchers
