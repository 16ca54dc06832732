#pragma once

/// Experts with a capacity: each keeps at most that many tokens, the others are dropped.
///
/// Shapes  probs [T, E] and their gradient, and the map of T tokens and E experts.
/// Calls   none.
/// Errors  expert_capacity: a factor that is not above 0; those of checks.h.
/// Exact   The capacity is ceil(T k / E factor) of the tokens of this rank, in the doubles of Megatron's own
///         formula: the same batch keeps other tokens on another layout.
///         No capacity is above 2^62.
///         The policy probs keeps the most probable tokens of an expert, position the first ones. Tokens that
///         are routed come before those that are not, and of equal ones the lowest (torch.topk does not say
///         which: in Megatron position is not first come, first served). Probabilities of tokens that are not
///         kept become 0.
///         With pad_to_capacity the map has exactly the capacity for every expert: where fewer tokens are
///         routed, others fill its buffer, with probability 0. As in Megatron, a capacity above the number of
///         tokens then sends every token to every expert, for right values and E / k times the work; and
///         permute() with padding refuses that capacity (token_permutation.h).
///         Of a counted map, tokens are dropped by number (routing_map.h).
/// Source  Megatron-LM, moe_utils.py: apply_router_token_dropping, get_capacity.

#include "sim/experts/topk_routing.h"

namespace sim {

struct TokenDroppingSaved {
  Tensor mask;  // i32 [T, E]
};
struct TokenDroppingForward {
  Routing routing;
  TokenDroppingSaved saved;
};

/// Returns the number of tokens that an expert keeps of `tokens` tokens that take topk experts each.
std::int64_t expert_capacity(std::int64_t tokens, std::int64_t topk, std::int64_t experts, double factor);

TokenDroppingForward drop_tokens(const Routing& routing, std::int64_t topk,
                                 const TokenDroppingConfig& config);
/// Returns the gradient of the probabilities before tokens were dropped.
Tensor drop_tokens_backward(const TokenDroppingSaved& saved, const Tensor& grad_probs);

}  // namespace sim
