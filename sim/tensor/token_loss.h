#pragma once

/// The pieces of a cross-entropy whose vocabulary is split over several ranks, each of which sees only
/// its own columns. Between the pieces, three values per token (four with smoothing) cross the group, and
/// never the logits.
///
///   maxima = row_max(logits)                                   all_reduce(max)
///   {exps, parts} = token_parts(logits, maxima, targets)       all_reduce(sum) of parts
///   loss = token_loss(parts, targets)
///   grad_logits = token_loss_backward(exps, parts, targets, grad)
///
/// Shapes  logits [T, V/tp] of any dtype; targets [T] i32, global ids; maxima [T], exps [T, V/tp], parts
///         [2, T] (or [3, T] with smoothing), loss and grad [T] in f32 if logits are bf16, otherwise in
///         the dtype of logits.
/// Exact   as device.h says; in the field the result does not depend on the shift that is subtracted.
/// Errors  bad_loss: columns, vocabulary or smoothing out of range; those of checks.h.
/// Source  Megatron-LM, vocab_parallel_cross_entropy; here smoothing is over the whole vocabulary.

#include "sim/tensor/device.h"

namespace sim {

struct TokenParts {
  Tensor exps;
  Tensor parts;
};

Tensor row_max(const Tensor& logits, const TokenLoss& loss);
TokenParts token_parts(const Tensor& logits, const Tensor& maxima, const Tensor& targets,
                       const TokenLoss& loss);
Tensor token_loss(const Tensor& parts, const Tensor& targets, const TokenLoss& loss);
/// Returns the gradient of the logits, in their dtype.
Tensor token_loss_backward(DType logits, const Tensor& exps, const Tensor& parts, const Tensor& targets,
                           const TokenLoss& loss, const Tensor& grad);

}  // namespace sim
