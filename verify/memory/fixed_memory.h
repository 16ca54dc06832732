#pragma once

/// What a rank holds between steps beside its parameters and their states: workspaces of libraries, and
/// buffers that Megatron does not give back.
///
/// Shapes  workspace   98 MiB: 32 MiB each for the matrix products of PyTorch's forward thread, of its
///                     backward thread and of Transformer Engine, and 2 MiB of small tensors. Layers without
///                     Transformer Engine and without experts have two of the three; a grouped product of
///                     experts has 4 streams with 32 MiB each; a dense model has 2 MiB less than one with
///                     experts.
///         placeholders   where the matrix products add the gradients of weights to the buffers themselves
///                     (--no-gradient-accumulation-fusion is not given), PyTorch is handed a tensor instead
///                     that nobody reads: one of the weight's dtype for each shape of a weight, which is made
///                     once and kept. Embeddings, norms, biases and routers have none.
///         buffers     with pipeline stages, tensors of e H n_s bytes that were sent or received: 2, or
///                     5/2 for each chunk of an interleaved rank; the input of the output layer, gathered
///                     over tp, e H n, on the last stage with sequence parallelism; scores of attention, in
///                     all stages of layers without Transformer Engine; with the allgather dispatcher, the
///                     tokens of all ranks that share experts, e H n_s ep etp. The last three share one
///                     buffer, the largest one. With context parallelism, keys and values twice: those that
///                     a ring sends, and those that it receives.
/// Exact   The workspace, and the numbers of tensors that are sent, were read off measured runs on H100s
///         (README.md); the other rules are those of the sources.
/// Source  PyTorch, aten/src/ATen/cuda/CUDABlas.cpp; TransformerEngine, module/base.py (get_dummy_wgrad);
///         Megatron-LM, core/utils.py (GlobalMemoryBuffer), core/tensor_parallel/layers.py,
///         core/transformer/dot_product_attention.py.

#include <cstdint>
#include <vector>

#include "verify/memory/model_memory.h"
#include "verify/memory/saved_tensors.h"

namespace verify {

/// Returns the bytes of the keys and values of a microbatch on a rank.
std::int64_t key_and_value_bytes(const ActivationShape& shape);

/// Returns the bytes of the workspaces: those of --workspace-memory, or those above.
std::int64_t workspace_bytes(const ActivationShape& shape);

/// Returns the elements of the tensors that stand for the gradients of the weights that a rank holds.
std::int64_t placeholder_elements(const std::vector<HeldParameter>& held);

/// Returns the bytes of the buffers of a stage of `pp` pipeline ranks, each of which has `chunks` chunks.
std::int64_t communication_buffer_bytes(const ActivationShape& shape, int pp, std::int64_t chunks,
                                        bool is_last);

}  // namespace verify
