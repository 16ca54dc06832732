#include "sim/experts/dispatchers.h"
#include "sim/experts/token_order.h"
#include "sim/experts/token_rows.h"
#include "sim/parallel/region.h"
#include "sim/tensor/checks.h"

namespace sim::dispatchers {

namespace {

/// Returns the tokens for which an expert from `first` to `first` + `count` - 1 was chosen, in ascending order.
std::vector<std::int64_t> tokens_for(const RoutingMap& map, std::int64_t first, std::int64_t count) {
  std::vector<std::int64_t> tokens;
  for (std::int64_t t = 0; t < map.tokens(); ++t) {
    bool is_chosen = false;
    for (std::int64_t e = first; e < first + count; ++e) is_chosen = is_chosen || map.at(t, e);
    if (is_chosen) tokens.push_back(t);
  }
  return tokens;
}

class FlexDispatcher : public TokenDispatcher {
 public:
  FlexDispatcher(const ExpertGrid& grid, TokensToDispatch tokens)
      : grid_(grid), map_(std::move(tokens.map)) {
    for (int place = 0; place < grid_.tp_ep.size(); ++place) {
      const std::vector<std::int64_t> of_place =
          tokens_for(map_, first_expert_of(place), grid_.local_experts());
      splits_.sent.push_back(std::ssize(of_place));
      tokens_.insert(tokens_.end(), of_place.begin(), of_place.end());
    }
  }

  ExpertRows dispatch(const Tensor& hidden, const Tensor& probs) override {
    exchange_counts(hidden.device());
    const Tensor rows = exchanged(taken_rows(hidden, tokens_), "token_dispatcher.dispatch");
    const Tensor rows_probs = exchanged(probs_of_places(probs), "token_dispatcher.dispatch_probs");
    received_ = rows_of(rows);
    order_ = expert_order(received_map(hidden.device()), 0, grid_.local_experts());
    return {taken_rows(rows, order_.tokens), taken_entries(rows_probs, order_.entries), order_.of_expert};
  }

  Tensor combine(const Tensor& outputs) const override {
    const Tensor sums = added_rows(outputs, order_.tokens, received_);
    return added_rows(returned(sums, "token_dispatcher.combine"), tokens_, map_.tokens());
  }

  Tensor combine_backward(const Tensor& grad) const override {
    return taken_rows(exchanged(taken_rows(grad, tokens_), "token_dispatcher.combine_backward"),
                      order_.tokens);
  }

  Gradients dispatch_backward(const Tensor& grad_rows, const Tensor& grad_probs) const override {
    const Tensor hidden = returned(added_rows(grad_rows, order_.tokens, received_),
                                   "token_dispatcher.dispatch_backward");
    const Tensor probs =
        returned(added_entries(grad_probs, order_.entries, received_, grid_.local_experts()),
                 "token_dispatcher.probs_backward");
    return {added_rows(hidden, tokens_, map_.tokens()), probs_of_tokens(probs)};
  }

 private:
  std::int64_t first_expert_of(int place) const {
    return place / grid_.etp.size() * grid_.local_experts();
  }
  Tensor exchanged(const Tensor& rows, Site site) const {
    return exchanged_rows(rows, splits_, grid_.tp_ep, site);
  }
  Tensor returned(const Tensor& rows, Site site) const {
    return returned_rows(rows, splits_, grid_.tp_ep, site);
  }

  void exchange_counts(Device& device) {
    const int n = grid_.tp_ep.size();
    const std::vector<std::int64_t> all = numbers_of(gathered_rows(
        tensor_of_numbers(device, splits_.sent).reshaped({1, n}), grid_.tp_ep, "token_dispatcher.counts"));
    for (int place = 0; place < n; ++place)
      splits_.received.push_back(all[static_cast<std::size_t>(place * n + grid_.tp_ep.rank())]);
  }

  /// Returns for each row that this rank sends the places in [T, E] of the destination's experts.
  std::vector<std::int64_t> entries_sent() const {
    std::vector<std::int64_t> entries;
    std::size_t row = 0;
    for (int place = 0; place < grid_.tp_ep.size(); ++place) {
      for (std::int64_t i = 0; i < splits_.sent[static_cast<std::size_t>(place)]; ++i, ++row) {
        const std::int64_t first = tokens_[row] * map_.experts() + first_expert_of(place);
        for (std::int64_t e = 0; e < grid_.local_experts(); ++e) entries.push_back(first + e);
      }
    }
    return entries;
  }
  Tensor probs_of_places(const Tensor& probs) const {
    return taken_entries(probs, entries_sent()).reshaped({std::ssize(tokens_), grid_.local_experts()});
  }
  Tensor probs_of_tokens(const Tensor& rows) const {
    return added_entries(rows.reshaped({rows.count(), 1}), entries_sent(), map_.tokens(), map_.experts());
  }

  /// Returns the map of the received rows over the local experts.
  RoutingMap received_map(Device& device) const {
    const std::int64_t local = grid_.local_experts();
    std::vector<std::int64_t> sent;
    for (const std::int64_t entry : entries_sent())
      sent.push_back(map_.at(entry / map_.experts(), entry % map_.experts()) ? 1 : 0);
    const Tensor rows = tensor_of_numbers(device, sent).reshaped({std::ssize(tokens_), local});
    const std::vector<std::int64_t> map = numbers_of(exchanged(rows, "token_dispatcher.map"));
    return {received_, local, {map.begin(), map.end()}};
  }

  ExpertGrid grid_;
  RoutingMap map_;
  std::vector<std::int64_t> tokens_;  // of the rows that this rank sends, by place of tp-ep
  RowSplits splits_;                  // over tp-ep
  std::int64_t received_ = 0;         // rows
  ExpertOrder order_;                 // of the received rows, over the local experts
};

}  // namespace

std::unique_ptr<TokenDispatcher> flex(const ExpertGrid& grid, TokensToDispatch tokens) {
  return std::make_unique<FlexDispatcher>(grid, std::move(tokens));
}

}  // namespace sim::dispatchers
