#include "sim/parallel/vocab_parallel_cross_entropy.h"

#include <algorithm>

#include "sim/parallel/vocab_parallel_embedding.h"
#include "sim/tensor/checks.h"
#include "sim/tensor/token_loss.h"

namespace sim {

VocabParallelCrossEntropy::VocabParallelCrossEntropy(Rank& rank,
                                                     const VocabParallelCrossEntropyConfig& config)
    : config_(config), tp_(rank.groups.get("tp")) {}

VocabParallelCrossEntropy::Forward VocabParallelCrossEntropy::forward(const Tensor& logits,
                                                                      const Tensor& target) {
  require_token_ids(target, config_.vocabulary, config_.ignored_id, "vocab_parallel_cross_entropy");
  const std::int64_t width = columns_of(logits);
  const std::int64_t first = tp_.rank() * width;
  const TokenLoss loss{.first_id = first,
                       .columns = std::clamp<std::int64_t>(config_.vocabulary - first, 0, width),
                       .vocabulary = config_.vocabulary,
                       .ignored_id = config_.ignored_id,
                       .smoothing = config_.label_smoothing};
  const Tensor maxima = row_max(logits, loss);
  if (tp_.size() > 1) tp_.all_reduce(maxima, ReduceOp::max, "vocab_parallel_cross_entropy.max");
  const TokenParts own = token_parts(logits, maxima, target, loss);
  if (tp_.size() > 1) tp_.all_reduce(own.parts, ReduceOp::sum, "vocab_parallel_cross_entropy.sum");
  return {token_loss(own.parts, target, loss), {logits.dtype(), own.exps, own.parts, target, loss}};
}

Tensor VocabParallelCrossEntropy::backward(const Saved& saved, const Tensor& grad_loss) {
  return token_loss_backward(saved.dtype, saved.exps, saved.parts, saved.target, saved.loss, grad_loss);
}

}  // namespace sim
