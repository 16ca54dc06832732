#pragma once

/// What the forward and the backward step of one layer hold for themselves, beyond what the layer keeps from
/// the one for the other.
///
/// Shapes  Sizes are as in saved_tensors.h.
///         experts   in the forward step, e H r of their outputs, and with alltoall e H r / etp of the rows
///                   that its tokens have chosen, of those that it received over ep, and of sums over etp;
///                   with several experts on a rank e H r of sorted outputs, too. With allgather the outputs,
///                   and all ranks' tokens, e H n_s ep etp. The output of shared experts waits for them:
///                   e H n_s, or e H n with --moe-shared-expert-overlap
///         backward  the largest of these moments, each with the gradient e H n_s of the output:
///                   - the MLP, or the routed experts, with what is computed again of them, and the most of
///                     their gradients: of the inside of the second product, of the activation's input, which
///                     has given back the former, or of the first product's input; gradients of weights
///                     unless they are fused. Experts have that of their output, too
///                   - the shared experts, as an MLP, when the routed ones have given back what they kept;
///                     the gradient of the input of both is there
///                   - attention, with what is computed again of it, and the gradients of its output, of
///                     queries, keys and values, when all after it has given back what it kept; with
///                     mla_up_proj also that of their up-projections, when the core has given back its output
///         again     a layer or a group that is computed again as a whole has all its tensors and its output
///                   before its backward step; so has a module, mlp, moe, shared_experts or core_attn. A
///                   layer that predicts further tokens has the two states that it joins, too
/// Exact   What kernels hold inside of them, such as sums in fp32 of the gradient of queries, is not counted.
///         Where shared experts overlap with the others, both are taken one after the other all the same.
/// Source  Megatron-LM, core/tensor_parallel/random.py (CheckpointFunction holds the outputs that it has
///         computed again; CheckpointWithoutOutput computes again when the gradient of a later tensor is
///         there), core/transformer/transformer_layer.py, moe/moe_layer.py and moe/token_dispatcher.py.

#include <cstdint>

#include "verify/memory/saved_tensors.h"

namespace verify {

/// Returns what the forward step of a layer with experts holds for itself.
std::int64_t forward_bytes_of_experts(const ActivationShape& shape);

/// Returns what the backward step of a layer holds for itself, without full recomputation.
std::int64_t backward_bytes(const ActivationShape& shape, bool has_experts);

/// Returns the same of a group of `layers` that is computed again as a whole, its input among it.
std::int64_t backward_bytes_again(const ActivationShape& shape, bool has_experts, std::int64_t layers);

/// Returns the same of a layer that predicts further tokens.
std::int64_t backward_bytes_of_prediction(const ActivationShape& shape, bool has_experts);

}  // namespace verify
