#pragma once

/// Tokens in the order of their experts, and back. A token that goes to k experts has k rows there.
///
/// Shapes  x [T, H], probs [T, E];  rows [R, H] and the probabilities of rows [R], expert by expert, and
///         inside an expert token by token. R is the number of pairs of the map; with a capacity C it is C E.
/// Calls   none.
/// Errors  capacity_above_tokens: rows padded to a capacity above the number of tokens, which Megatron's
///         permute cannot make either; chunk_order: an order that does not name each chunk once, or chunks
///         that are not the rows; those of checks.h.
/// Exact   permute() and sort_chunks_by_idxs() only move values. unpermute() adds the rows of a token in the
///         order of its experts, starting from 0; bf16 adds in f32 and rounds once, where Megatron adds in
///         the dtype of the rows.
/// Source  Megatron-LM, moe_utils.py: permute, unpermute, sort_chunks_by_idxs, pad_routing_map.

#include <cstdint>
#include <vector>

#include "sim/experts/routing_map.h"

namespace sim {

/// Which token and which probability each row has.
struct RowOrder {
  std::int64_t tokens = 0;
  std::int64_t experts = 0;
  std::vector<std::int64_t> rows_per_expert;
  std::vector<std::int32_t> sorted_indices;  // the token of each row; empty if the map is counted
  Tensor token_ids;                          // i32 [R]: the same on the device
  Tensor prob_ids;                           // i32 [R]: the element of probs [T, E] of each row

  std::int64_t rows() const { return token_ids.count(); }
};

/// Returns the order of the pairs that a map chooses. Of a counted map, ids have no elements.
RowOrder row_order(const RoutingMap& map, Device& device);
/// Returns the order of `capacity` rows for each expert: its tokens first, then tokens that are not routed to
/// it. Tokens beyond the capacity are left out.
RowOrder padded_row_order(const RoutingMap& map, std::int64_t capacity, Device& device);

/// Returns the row of each token's copy.
Tensor permute(const Tensor& x, const RowOrder& order);
Tensor permute_backward(const Tensor& grad_rows, const RowOrder& order);
/// Returns the probability of each row.
Tensor permute_probs(const Tensor& probs, const RowOrder& order);
Tensor permute_probs_backward(const Tensor& grad_row_probs, const RowOrder& order);
/// Returns for each token the sum of its rows.
Tensor unpermute(const Tensor& rows, const RowOrder& order);
Tensor unpermute_backward(const Tensor& grad, const RowOrder& order);

/// Returns for each token the sum of its rows, each multiplied by its probability here and not inside the
/// expert. This is the older way; it rounds differently and gives the same exact value where experts have no
/// bias.
Tensor unpermute_weighted(const Tensor& rows, const Tensor& probs, const RowOrder& order);
struct WeightedGrads {
  Tensor grad_rows;
  Tensor grad_probs;  // [T, E]
};
WeightedGrads unpermute_weighted_backward(const Tensor& rows, const Tensor& probs, const Tensor& grad,
                                          const RowOrder& order);

/// Cuts the rows into chunks of split_sizes rows, and puts chunk sorted_idxs[i] at place i. This turns rows
/// sorted by rank and then by expert into rows sorted by expert and then by rank.
Tensor sort_chunks_by_idxs(const Tensor& rows, const std::vector<std::int64_t>& split_sizes,
                           const std::vector<std::int64_t>& sorted_idxs);
/// Puts the chunks back: split_sizes and sorted_idxs are those of the forward call.
Tensor sort_chunks_by_idxs_backward(const Tensor& grad_rows, const std::vector<std::int64_t>& split_sizes,
                                    const std::vector<std::int64_t>& sorted_idxs);

/// Returns a map in which the number of tokens of each expert is a multiple of `multiple`, where there are
/// enough tokens: the first tokens that are not routed to the expert are added.
RoutingMap pad_routing_map(const RoutingMap& map, std::int64_t multiple);

}  // namespace sim
