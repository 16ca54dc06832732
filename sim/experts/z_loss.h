#pragma once

/// The z-loss of a router: it keeps logits small. It is attached to the logits as the losses of aux_loss.h
/// are attached to the probabilities.
///
///   loss of this rank = coefficient / m * mean over its tokens of (log sum over e of exp(logit(e)))^2
///
/// Shapes  logits [T, E] and their gradient; losses [1], in f32 where logits are bf16. m is the size of
///         tp-cp.
/// Calls   none.
/// Errors  aux_loss: a mask of another length; those of checks.h.
/// Exact   The sum of exponentials is taken after the largest logit is subtracted. Tokens that are padding
///         have neither loss nor gradient; if all of them are, the loss is 0. The mean is of this rank, so
///         with padding the sum over ranks is a mean of means, as in Megatron. With per_token_loss the loss
///         is multiplied by this rank's tokens and by m.
/// Source  Megatron-LM, moe_utils.py: z_loss_func, and router.py: apply_z_loss; Zoph et al. 2022.

#include "sim/experts/aux_loss.h"

namespace sim {

struct ZLossConfig {
  Ratio coefficient = {1, 1000};
  bool per_token_loss = false;
};

struct ZLossForward {
  AttachedLoss loss;
  Tensor grad_logits;  // of the loss, for a scale of 1
};

ZLossForward z_loss(const Tensor& logits, const PaddingMask& padding, const ZLossConfig& config,
                    const AuxLossGroups& groups);
/// Adds the gradient of the loss, multiplied by `scale`, to grad_logits.
void add_z_loss_backward(const ZLossForward& forward, Ratio scale, Tensor& grad_logits);

}  // namespace sim
