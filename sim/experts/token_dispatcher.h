#pragma once

/// The exchange of the tokens of one microbatch between the ranks that own tokens and the ranks that own
/// experts, forward and backward. There are three ways, which compute the same sums in different orders.
///
///   allgather   every rank of tp-ep receives all tokens and keeps those that its experts were chosen for;
///               the outputs are summed and cut by one reduce_scatter
///   alltoall    each token goes to the ranks of its experts, once for each expert; over ep, then over etp
///   flex        each token goes to each rank of tp-ep that has one of its experts, once, and each of these
///               ranks sends back the sum of its experts' outputs
///
/// Shapes  hidden [T, H], this rank's tokens; probs [T, E]; rows [R, H] and their probabilities [R], ordered
///         by local expert, and for each expert by the rank that owns the token and then by token. The rows
///         of etp ranks of one ep rank are the same.
/// Calls   n = etp ep ranks of tp-ep; N rows are sent, R rows received over ep, A are the rows of all etp
///         ranks.
///           allgather   dispatch: all_gather over tp-ep of the map (i32) and of probs, T E each, and of
///                       hidden, T H. combine: reduce_scatter of n T H. backward: all_gather of T H;
///                       reduce_scatter of n T H and of n T E
///           alltoall    counts: all_gather of E over tp-ep, unless all experts are padded to a capacity.
///                       dispatch: all_to_all_uneven over ep of N H and of N, and with etp above 1 an
///                       all_gather of each over etp. combine: with etp above 1 a reduce_scatter over etp of
///                       A H, then all_to_all_uneven of R H. backward: the conjugate of each, without counts.
///                       Where the ranks of etp have different numbers of rows, their all_gather is one
///                       broadcast from each that has rows, and their reduce_scatter one reduce to each: what
///                       NCCL runs
///           flex        counts: all_gather of n over tp-ep. dispatch: all_to_all_uneven over tp-ep of the
///                       rows, of the probabilities of the destination's experts and of their map (i32).
///                       combine: one of the rows. backward: the conjugate of each, without counts and map
///         A rank without tokens makes the same calls as all others.
/// Errors  dispatch_map: a map of another number of experts than the grid has; capacity_above_tokens, for
///         alltoall; a shape_mismatch of checks.h: hidden states or probabilities of other tokens than the
///         map has.
/// Exact   All three give the same sums in the field. In floats, outputs of several experts of a token are
///         added in the order of the experts (alltoall), or first on each rank (allgather, flex).
/// Source  Megatron-LM, moe/token_dispatcher.py. Its map is a tensor of bool, ours of i32: the number of
///         elements is the same, and the bytes are four times as many. DeepEP and its relatives move what
///         flex moves, in one kernel.

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "sim/experts/expert_grid.h"
#include "sim/experts/expert_options.h"
#include "sim/experts/routing_map.h"

namespace sim {

/// What the local experts compute on.
struct ExpertRows {
  Tensor rows;                          // [R, H]
  Tensor probs;                         // [R]
  std::vector<std::int64_t> of_expert;  // the number of rows of each local expert
};

/// The tokens of one microbatch on their way. It keeps what backward needs, except for tensors of the caller.
class TokenDispatcher {
 public:
  virtual ~TokenDispatcher() = default;
  virtual ExpertRows dispatch(const Tensor& hidden, const Tensor& probs) = 0;
  /// Returns the sum of the outputs of each token's experts, [T, H]. `outputs` are the rows of the local
  /// experts.
  virtual Tensor combine(const Tensor& outputs) const = 0;
  /// Returns the gradient of the outputs of the local experts.
  virtual Tensor combine_backward(const Tensor& grad) const = 0;
  struct Gradients {
    Tensor hidden;  // [T, H]
    Tensor probs;   // [T, E], 0 where the expert was not chosen
  };
  virtual Gradients dispatch_backward(const Tensor& grad_rows, const Tensor& grad_probs) const = 0;
};

/// What is known of a microbatch before its tokens are exchanged.
struct TokensToDispatch {
  RoutingMap map;  // of this rank's tokens
  /// The number of rows that every rank sends to every expert, where all are padded to a capacity.
  std::optional<std::int64_t> capacity = std::nullopt;
};

std::unique_ptr<TokenDispatcher> make_token_dispatcher(TokenDispatcherType type, const ExpertGrid& grid,
                                                       TokensToDispatch tokens);

}  // namespace sim
