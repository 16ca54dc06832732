#pragma once

/// From the logits of a router to the experts of each token and their probabilities, forward and backward.
///
/// Shapes  logits, probs and their gradients [T, E]; expert_bias [E], in f32 if logits are bf16. probs are 0
///         where the map chooses nothing.
/// Calls   none.
/// Errors  topk_routing: fewer than one expert for a token, or more than there are; groups that do not divide
///         the experts; no surviving group, or more than there are; more experts to choose, or to score a
///         group, than the surviving groups have; a bias with softmax; those of checks.h.
/// Exact   softmax: over all experts before the choice with pre_softmax, otherwise over the chosen ones. The
///         other functions: with topk above 1 the chosen scores are divided by their sum + 10^-20. Then all
///         are multiplied by scaling_factor. The expert bias is added for the choice alone. Choices are made
///         as top_choices.h says, from the scores that the device computed.
///         With groups, a group scores the sum of its topk / group_topk largest scores, group_topk groups
///         survive, and the experts are chosen among those. As in Megatron, the quotient is rounded down
///         without a word, so some experts of the groups have no say; with topk below group_topk all groups
///         score 0, and those with the lowest numbers survive (Megatron's are whichever torch.topk returns).
///         TopKRouter (router.h) refuses both.
///         With force_load_balancing the choice follows no score and no group. Megatron draws random logits
///         instead, so that its experts have nearly as many tokens. Where scores have no elements, the map
///         is then a counted one (routing_map.h).
/// Source  Megatron-LM, moe_utils.py: topk_routing_with_score_function, group_limited_topk,
///         --moe-router-force-load-balancing.

#include <string>

#include "sim/experts/expert_options.h"
#include "sim/experts/routing_map.h"
#include "sim/experts/score_function.h"
#include "sim/tensor/kernel_parameters.h"

namespace sim {

/// What a router decides for T tokens.
struct Routing {
  Tensor probs;
  RoutingMap map;
};

struct TopKRoutingSaved {
  TopKRoutingConfig config;
  Tensor logits;
  Tensor mask;      // i32 [T, E]
  Tensor ids;       // i32 [T, k]: the chosen elements, for a softmax over them
  Tensor scores;    // of all experts; for a softmax after the choice [T, k], of the chosen ones
  Tensor inverses;  // [T], where the chosen scores are divided by their sum
};
struct TopKRoutingForward {
  Routing routing;
  TopKRoutingSaved saved;
};

/// Refuses a configuration that cannot choose among `experts`; `user` names the layer.
void require_topk_routing(const TopKRoutingConfig& config, std::int64_t experts, const std::string& user);

TopKRoutingForward topk_routing(const Tensor& logits, const TopKRoutingConfig& config,
                                const Tensor& expert_bias = Tensor());
/// Returns the gradient of the logits. Elements of grad_probs that were not chosen are not read.
Tensor topk_routing_backward(const TopKRoutingSaved& saved, const Tensor& grad_probs);

/// Returns the topk experts of each row of scores, without groups.
RoutingMap topk_map(const Tensor& scores, std::int64_t topk, bool force_load_balancing);

}  // namespace sim
