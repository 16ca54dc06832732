#pragma once

/// The end of a step under sequence parallelism: gradients of replicated parameters that saw a part of the
/// tokens are summed over the tensor-model-parallel group.
///
/// Calls   one all_reduce(sum) for each parameter with the attribute sequence_parallel, in the order given;
///         none else.
/// Source  Megatron-LM, finalize_model_grads: _allreduce_non_tensor_model_parallel_grads.

#include <span>

#include "sim/parallel/parameter.h"

namespace sim {

void all_reduce_sequence_parallel_grads(Rank& rank, std::span<Parameter* const> parameters);

}  // namespace sim
