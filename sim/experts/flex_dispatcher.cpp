#include "sim/experts/dispatchers.h"
#include "sim/experts/host_copies.h"
#include "sim/experts/row_operations.h"
#include "sim/experts/token_permutation.h"
#include "sim/parallel/region.h"
#include "sim/tensor/ops.h"

namespace sim::dispatchers {

namespace {

/// Returns which tokens go to which place of tp-ep: those that chose one of its experts, and to all of its
/// etp ranks.
RoutingMap map_of_places(const ExpertGrid& grid, const RoutingMap& map) {
  const RoutingMap ranks = map.groups_of(grid.local_experts());
  if (map.is_counted()) {
    std::vector<std::int64_t> counts;
    for (const std::int64_t count : ranks.tokens_per_expert())
      counts.insert(counts.end(), static_cast<std::size_t>(grid.etp.size()), count);
    return RoutingMap::counted(map.tokens(), std::move(counts));
  }
  RoutingMap places(map.tokens(), grid.tp_ep.size());
  for (std::int64_t t = 0; t < map.tokens(); ++t)
    for (std::int64_t place = 0; place < places.experts(); ++place)
      places.set(t, place, ranks.at(t, place / grid.etp.size()));
  return places;
}

class FlexDispatcher : public TokenDispatcher {
 public:
  FlexDispatcher(const ExpertGrid& grid, TokensToDispatch tokens)
      : grid_(grid), map_(std::move(tokens.map)) {}

  ExpertRows dispatch(const Tensor& hidden, const Tensor& probs) override {
    require_tokens_of(map_, hidden, probs);
    Device& device = hidden.device();
    to_places_ = row_order(map_of_places(grid_, map_), device);
    splits_ = {.sent = to_places_.rows_per_expert, .received = {}};
    exchange_counts(device);
    const Shape sent = {to_places_.rows(), grid_.local_experts()};
    const std::vector<std::int32_t> entries = entries_sent();
    entry_ids_ = map_.is_counted() ? device.empty(DType::i32, sent) : device_ids(device, sent, entries);
    const Tensor chosen =
        map_.is_counted() ? device.empty(DType::i32, sent) : device_ids(device, sent, chosen_of(entries));
    const Tensor rows = exchanged(permute(hidden, to_places_), "token_dispatcher.dispatch");
    const Tensor row_probs = exchanged(take_elements(probs, entry_ids_), "token_dispatcher.dispatch_probs");
    to_experts_ = row_order(
        received_map(exchanged(chosen, "token_dispatcher.map"), own_experts(), grid_.tp_ep.size()), device);
    return {permute(rows, to_experts_), permute_probs(row_probs, to_experts_), to_experts_.rows_per_expert};
  }

  Tensor combine(const Tensor& outputs) const override {
    return unpermute(returned(unpermute(outputs, to_experts_), "token_dispatcher.combine"), to_places_);
  }

  Tensor combine_backward(const Tensor& grad) const override {
    const Tensor rows = exchanged(unpermute_backward(grad, to_places_), "token_dispatcher.combine_backward");
    return unpermute_backward(rows, to_experts_);
  }

  Gradients dispatch_backward(const Tensor& grad_rows, const Tensor& grad_probs) const override {
    const Tensor hidden =
        returned(permute_backward(grad_rows, to_experts_), "token_dispatcher.dispatch_backward");
    const Tensor probs =
        returned(permute_probs_backward(grad_probs, to_experts_), "token_dispatcher.probs_backward");
    return {permute_backward(hidden, to_places_),
            put_elements(probs, entry_ids_, map_.tokens(), map_.experts())};
  }

 private:
  Tensor exchanged(const Tensor& rows, Site site) const {
    return exchanged_rows(rows, splits_, grid_.tp_ep, site);
  }
  Tensor returned(const Tensor& rows, Site site) const {
    return returned_rows(rows, splits_, grid_.tp_ep, site);
  }

  void exchange_counts(Device& device) {
    const int n = grid_.tp_ep.size();
    const Tensor own = device_ids(device, {1, n}, {splits_.sent.begin(), splits_.sent.end()});
    const std::vector<std::int32_t> all =
        host_ids(gathered_rows(own, grid_.tp_ep, "token_dispatcher.counts"));
    for (int place = 0; place < n; ++place)
      splits_.received.push_back(all[static_cast<std::size_t>(place * n + grid_.tp_ep.rank())]);
  }

  /// Returns this rank's tokens of the local experts, if they are counted.
  RoutingMap own_experts() const {
    if (!map_.is_counted()) return {};
    return map_.experts_from(grid_.first_local_expert(), grid_.local_experts());
  }

  /// Returns for each row that this rank sends the elements of [T, E] that belong to the destination's
  /// experts; none if the map is counted.
  std::vector<std::int32_t> entries_sent() const {
    if (map_.is_counted()) return {};
    std::vector<std::int32_t> entries;
    std::size_t row = 0;
    for (int place = 0; place < grid_.tp_ep.size(); ++place) {
      const std::int64_t first = place / grid_.etp.size() * grid_.local_experts();
      for (std::int64_t i = 0; i < splits_.sent[static_cast<std::size_t>(place)]; ++i, ++row) {
        const std::int64_t begin = to_places_.sorted_indices[row] * map_.experts() + first;
        for (std::int64_t e = 0; e < grid_.local_experts(); ++e)
          entries.push_back(static_cast<std::int32_t>(begin + e));
      }
    }
    return entries;
  }
  std::vector<std::int32_t> chosen_of(const std::vector<std::int32_t>& entries) const {
    std::vector<std::int32_t> chosen;
    for (const std::int32_t entry : entries) chosen.push_back(map_.chosen()[static_cast<std::size_t>(entry)]);
    return chosen;
  }

  ExpertGrid grid_;
  RoutingMap map_;
  RowOrder to_places_;   // of this rank's tokens, over the places of tp-ep
  RowSplits splits_;     // over tp-ep
  Tensor entry_ids_;     // i32: the elements of [T, E], El for each row that this rank sends
  RowOrder to_experts_;  // of the received rows, over the local experts
};

}  // namespace

std::unique_ptr<TokenDispatcher> flex(const ExpertGrid& grid, TokensToDispatch tokens) {
  return std::make_unique<FlexDispatcher>(grid, std::move(tokens));
}

}  // namespace sim::dispatchers
