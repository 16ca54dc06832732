#pragma once

/// Warnings of what Megatron does with the auxiliary losses of experts although their names promise something
/// else. shardproof follows Megatron, and says so.
///
/// Exact   global_aux_loss_over_dp: global_aux_loss with dp above 1. Its mean is taken over the tokens of all
///         replicas, and data parallelism divides its gradient by dp again, so that the coefficient acts as a
///         dp-th of what is given.
///         aux_loss_counts: a loss that balances the load counts the experts that a plain top-k of the scores
///         chooses; with groups, an expert bias or a capacity, tokens go to others.
///         per_token_aux_loss: with a mean over tokens, an auxiliary loss is multiplied by the valid tokens
///         of its own rank, which is exact only where all ranks of tp-cp have as many.
///         A loss whose coefficient is 0 has no warning.
/// Source  Megatron-LM at d98e8a64ddf3, moe/router.py and moe_utils.py; its issue 3672.

#include <vector>

#include "sim/layout/layout.h"
#include "verify/requests/expert_options.h"

namespace verify {

std::vector<sim::Warning> expert_warnings(const ExpertOptions& experts, const sim::Layout& layout,
                                          bool per_token_loss);

}  // namespace verify
