#pragma once

/// The three dispatchers, and what they share: exchanges of rows whose numbers differ from rank to rank.

#include "sim/experts/token_dispatcher.h"

namespace sim::dispatchers {

std::unique_ptr<TokenDispatcher> allgather(const ExpertGrid& grid, TokensToDispatch tokens);
std::unique_ptr<TokenDispatcher> all_to_all(const ExpertGrid& grid, TokensToDispatch tokens);
std::unique_ptr<TokenDispatcher> flex(const ExpertGrid& grid, TokensToDispatch tokens);

/// Reads the map of rows that were received from so many ranks. If this rank's own map of the same experts is
/// counted, all of them are taken to choose as this rank does.
RoutingMap received_map(const Tensor& map, const RoutingMap& own, int ranks);

/// Requires hidden states and probabilities of the tokens of the map.
void require_tokens_of(const RoutingMap& map, const Tensor& hidden, const Tensor& probs);

/// The numbers of rows that this rank sends to each place of a group, and receives from each.
struct RowSplits {
  std::vector<std::int64_t> sent;
  std::vector<std::int64_t> received;
};
/// Sends rows [sum of sent, ..] to the places of the group, and returns those received.
Tensor exchanged_rows(const Tensor& rows, const RowSplits& splits, Communicator& group, Site site);
/// Sends the rows back that exchanged_rows() would have received.
Tensor returned_rows(const Tensor& rows, const RowSplits& splits, Communicator& group, Site site);

/// Returns the rows of all places of a group, of which place p has rows_of[p]. If all have equally many, this
/// is one all_gather; otherwise it is one broadcast from each place that has rows, which is what NCCL runs.
Tensor gathered_uneven(const Tensor& own, const std::vector<std::int64_t>& rows_of, Communicator& group,
                       Site site);
/// Returns this place's rows of the sum over the group: one reduce_scatter, or one reduce to each place that
/// has rows.
Tensor reduce_scattered_uneven(const Tensor& all, const std::vector<std::int64_t>& rows_of,
                               Communicator& group, Site site);

}  // namespace sim::dispatchers
