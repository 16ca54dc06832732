#pragma once

/// The cross-entropy of logits whose vocabulary is split over the tensor-model-parallel group. Logits never
/// cross the group. Three values per token do: the maximum, the target's logit and the sum of exponentials.
///
/// Shapes  logits [T, V/tp], target [T] i32, global ids;  loss [T] and its gradient, in f32 where logits are
///         bf16;  grad_logits as logits. V is the padded vocabulary: columns from `vocabulary` on are padding
///         and do not enter the loss.
/// Calls   forward: all_reduce(max) of [T], all_reduce(sum) of [2, T], or of [3, T] with label smoothing.
///         backward: none.
/// Errors  partition, when V is not a multiple of tp; token_id; bad_loss.
/// Exact   loss and gradient differ from the serial ones only in the order of the sum of exponentials; in the
///         field they are equal. A token whose target is ignored_id has no loss and no gradient. Label
///         smoothing s uses the whole vocabulary: (1 - s) nll + s mean(-log p).
/// Source  Megatron-LM, fused_vocab_parallel_cross_entropy; its smoothing uses the local width, which differs
///         with tp.

#include "sim/parallel/parameter.h"

namespace sim {

struct VocabParallelCrossEntropyConfig {
  std::int64_t vocabulary = 0;   // without padding
  std::int64_t ignored_id = -1;  // targets with this id have no loss; -1 is no id of the vocabulary
  Ratio label_smoothing = {0, 1};
};

class VocabParallelCrossEntropy {
 public:
  VocabParallelCrossEntropy(Rank& rank, const VocabParallelCrossEntropyConfig& config);

  struct Saved {
    DType dtype;
    Tensor exps;
    Tensor parts;
    Tensor target;
    TokenLoss loss;
  };
  struct Forward {
    Tensor loss;
    Saved saved;
  };
  Forward forward(const Tensor& logits, const Tensor& target);
  Tensor backward(const Saved& saved, const Tensor& grad_loss);

 private:
  VocabParallelCrossEntropyConfig config_;
  Communicator& tp_;
};

}  // namespace sim
