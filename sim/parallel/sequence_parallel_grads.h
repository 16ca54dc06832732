#pragma once

/// The end of a step under tensor parallelism. Replicated parameters whose gradient covers a part of the
/// tokens on each rank, as with sequence parallelism, or a part of the heads, as the norms of queries and
/// keys, get the sum of these gradients over the tensor-model-parallel group.
///
/// Calls   one all_reduce(sum) for each parameter with the attribute sequence_parallel, in the order given,
///         and no others.
/// Source  Megatron-LM, finalize_model_grads: _allreduce_non_tensor_model_parallel_grads.

#include <span>

#include "sim/parallel/parameter.h"

namespace sim {

void all_reduce_sequence_parallel_grads(Rank& rank, std::span<Parameter* const> parameters);

}  // namespace sim
