#pragma once

/// The largest moment of a step on every pipeline stage: the activations of the microbatches in flight, what
/// the loss needs, and what the step of the schedule that is running needs for itself.
///
/// Shapes  Sizes are as in saved_tensors.h; N is the logits of a rank, padded vocabulary * n / tp.
///         chunk     the layers' tensors, or with full recomputation the inputs of their groups (of `block`
///                   those of its first layers, never those of multi-token prediction); the mask of
///                   dropout after the embedding; before the output layer, the final norm's input and
///                   output, and its statistics. A layer of multi-token prediction has 6 e H n_s more around
///                   it, or 3 if it is computed again, and the statistics of three norms
///         logits    in the loss' forward and backward step (e + 4) N: the logits, and their softmax in fp32,
///                   which is kept between the two; the fused kernel makes a second copy in fp32, (e + 8) N;
///                   that of Transformer Engine works in place, e N. In fp32 nothing is converted: 4 N.
///                   Each layer of multi-token prediction keeps the same of its own loss.
///         layers    what the forward step of a layer with experts and the backward step of any layer hold
///                   for themselves (layer_steps.h). The output layer has the gradients of the logits, of
///                   its input and of its weight. Layers run when the final norm has given
///                   back what it kept, but for those that predict further tokens. The embedding has the
///                   gradient of its output and of its whole weight, when the layers have given back what
///                   they kept; if it is tied to the output layer of the same stage, that weight's gradient
///                   waits for it from the output layer on, or if gradients are fused their sum is another
///                   tensor
///         left      after the backward step of a chunk, until its next forward step, for each layer or
///                   group with experts that is computed again, or whose module moe is, 2 e H n_s: its input,
///                   and the gradient of it, which the graph of the dispatcher's probabilities holds
///         deferred  with --defer-embedding-wgrad-compute, until the pipeline drains, e N of the gradient of
///                   the logits and e H n_s of the output layer's input, of as many microbatches as the
///                   limit allows
///         mask      the data loader's mask of attention, one byte for each pair of tokens, on the first and
///                   the last stage. Checkpointed layers, and a checkpointed core of attention, keep that of
///                   every microbatch in flight. A rank of cp cuts its part from the whole mask.
/// Calls   The order of steps is the schedule's; each is one candidate for the largest moment.
/// Exact   A router spreads tokens evenly; another routing gives a rank other rows. Inside of a forward step
///         nothing is counted beyond what it leaves, except for the loss and for experts.
/// Source  Megatron-LM, core/tensor_parallel/cross_entropy.py, core/fusions/fused_cross_entropy.py,
///         core/pipeline_parallel/schedules.py, core/transformer/transformer_block.py,
///         core/transformer/multi_token_prediction.py, training/utils.py (get_batch_on_this_tp_rank),
///         core/tensor_parallel/random.py (CheckpointFunction).

#include <cstdint>
#include <string>
#include <vector>

#include "sim/layout/layer_placement.h"
#include "sim/pipeline/schedules.h"
#include "verify/memory/saved_tensors.h"

namespace verify {

/// The largest moment of a stage, in parts.
struct LargestMoment {
  std::int64_t activations = 0;
  std::int64_t logits_and_loss = 0;
  std::int64_t temporary = 0;
  std::string step;  // in words
  std::int64_t all() const { return activations + logits_and_loss + temporary; }
};

/// Whether the bytes that a rank may hold can be counted exactly: they are at most 2^53.
bool can_be_counted(const ActivationShape& shape, const sim::PipelineShape& pipeline);

/// Returns the bytes of the mask of attention that the data loader makes for a microbatch.
std::int64_t attention_mask_bytes(const ActivationShape& shape);

/// Whether recomputation keeps the mask of each microbatch in flight; else a rank has that of one.
bool keeps_attention_masks(const ActivationShape& shape);

/// Returns the largest moment of each pipeline rank. The placement must have the chunks of `pipeline`.
std::vector<LargestMoment> largest_moments(const ActivationShape& shape, const sim::LayerPlacement& placement,
                                           sim::ScheduleFunction schedule,
                                           const sim::PipelineShape& pipeline);

}  // namespace verify
