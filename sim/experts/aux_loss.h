#pragma once

/// The losses that keep experts evenly loaded. Each is attached to the probabilities of a router: forward
/// does not change them, and backward adds the gradient of the loss to that of the logits.
///
///   loss of this rank = coefficient E / (k N^2) sum over e of P(e) n(e)
///
///   kind              n(e): tokens of expert e        N: tokens         in P(e), the sum of scores
///   aux_loss          in tp-cp                        in tp-cp          tokens of this rank
///   seq_aux_loss      in tp-cp, of one sequence       of one sequence   the same, for each sequence of the
///                                                                       batch; the mean over the batch
///   global_aux_loss   in tp-dp-cp, the mean of the    in tp-dp-cp       tokens of this rank
///                     microbatches of a step so far
///
/// Shapes  logits [T, E], where token t is position t / batch of sequence t % batch; losses [1], in f32 where
///         logits are bf16.
/// Calls   for each kind with a coefficient, in the order of the table: all_reduce(sum) of the counts, i32
///         [E], or [batch E] for seq_aux_loss. Megatron's counts are of 64 bits.
/// Errors  no_valid_tokens: the group has no token but padding, where Megatron's loss is NaN; aux_loss: a
///         kind that is given twice, or a batch that does not divide the tokens; those of checks.h.
/// Exact   The scores are those of all experts: softmax, or the other functions divided by their sum over all
///         experts. The counts are of the topk largest of them, and padding has neither scores nor counts.
///         They are therefore not the counts of what is dispatched where groups, a bias or a capacity decide.
///         The losses of ranks add up to the loss of their group. Megatron's own mistakes are followed:
///         - global_aux_loss is a loss of all of tp-dp-cp, and the mean over data-parallel ranks divides its
///           gradient by dp once more (Megatron-LM issue 3672).
///         - per_token_loss multiplies a loss by this rank's tokens and by the size of tp-cp, to undo a later
///           division by all tokens: right only if all ranks have equally many tokens.
///         - With padding these tokens come from counts that the all_reduce has overwritten, so the gradients
///           are the size of the group times too large (Megatron-LM pull request 7452, item 10);
///           counts_reduced_in_place = false counts this rank's tokens.
/// Source  Megatron-LM, router.py and moe_utils.py: switch_load_balancing_loss_func,
///         compute_routing_scores_for_aux_loss, get_tokens_per_expert_and_token_count; Fedus et al. 2021.

#include <string>
#include <vector>

#include "sim/comm/communicator.h"
#include "sim/experts/topk_routing.h"

namespace sim {

/// One byte for each token, 1 where it is padding. Empty: no token is padding.
using PaddingMask = std::vector<std::uint8_t>;

struct AuxLossConfig {
  std::vector<AuxLoss> losses;
  std::int64_t topk = 1;
  ScoreFunction score_function = ScoreFunction::softmax;
  bool per_token_loss = false;
  bool counts_reduced_in_place = true;
  bool force_load_balancing = false;  // experts are counted as they are chosen: in turn (topk_routing.h)
};

struct AuxLossGroups {
  Communicator* tp_cp;
  Communicator* tp_dp_cp;
};

/// A loss of one microbatch on this rank.
struct AttachedLoss {
  std::string name;  // the one under which Megatron logs it
  Tensor attached;   // [1]: what is differentiated
  Tensor logged;     // [1]: the loss without its coefficient and without the factor of per_token_loss
  Communicator* logging_group;
};

/// The tokens of each expert in all microbatches of a step so far, summed over tp-dp-cp.
struct GlobalTokensPerExpert {
  Tensor tokens;  // i32 [E]; Tensor() before the first microbatch
  std::int64_t microbatches = 0;
};

struct AuxLossInput {
  Tensor logits;
  std::int64_t batch_size = 1;
  PaddingMask padding;
};

/// The scores of all experts, and the choices that the losses count.
struct AuxScores {
  Tensor scores;
  RoutingMap map;
  Tensor logits;
  Tensor all_scores;  // before they were divided by their sum
  Tensor inverses;
  Tensor valid;  // i32 [T, E], if tokens are padding
};
AuxScores scores_for_aux_loss(const AuxLossInput& input, const AuxLossConfig& config);
Tensor scores_for_aux_loss_backward(ScoreFunction function, const AuxScores& scores,
                                    const Tensor& grad_scores);

/// Returns coefficient E / (k N^2) sum of P(c) n(c) over the columns c of scores [S, C], and its derivative
/// by each P(c).
struct BalanceLoss {
  Tensor loss;    // [1]
  Tensor slopes;  // [C]
};
BalanceLoss switch_load_balancing_loss(const Tensor& scores, const Tensor& tokens_per_expert,
                                       Ratio total_tokens, std::int64_t topk, std::int64_t experts,
                                       Ratio coefficient);

struct AuxLossesSaved {
  ScoreFunction function = ScoreFunction::softmax;
  AuxScores scores;
  Tensor grad_scores;  // [T, E], of the sum of all losses; Tensor() if there are none
};
struct AuxLossesForward {
  std::vector<AttachedLoss> losses;
  AuxLossesSaved saved;
};
AuxLossesForward aux_losses(const AuxLossInput& input, const AuxLossConfig& config,
                            const AuxLossGroups& groups, GlobalTokensPerExpert& global_tokens);
/// Adds the gradient of the losses, multiplied by `scale`, to grad_logits.
void add_aux_losses_backward(const AuxLossesSaved& saved, Ratio scale, Tensor& grad_logits);

/// Requires one byte for each of the tokens, or none at all, and returns the number that are no padding.
std::int64_t valid_tokens(const PaddingMask& padding, std::int64_t tokens);
/// Returns the ratio in lowest terms.
Ratio lowest_terms(Ratio ratio);

}  // namespace sim
