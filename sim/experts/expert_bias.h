#pragma once

/// The expert bias is added to the scores when experts are chosen, and moved after each step: up for experts
/// with fewer tokens than the mean, and down for those with more. It has no gradient.
///
/// Shapes  tokens_per_expert i32 [L, E] and expert_bias [L, E], for L routers at once.
/// Calls   one all_reduce(sum) of [L, E] over tp-dp-cp. Megatron's counts are f32.
/// Errors  those of checks.h.
/// Exact   bias + rate sign(mean - tokens); the sign is decided in whole numbers.
/// Source  Megatron-LM, moe_utils.py: get_updated_expert_bias; Wang et al. 2024 (auxiliary-loss-free load
///         balancing).

#include "sim/comm/communicator.h"
#include "sim/tensor/kernel_parameters.h"

namespace sim {

/// Returns the new bias. tokens_per_expert holds the tokens of the whole group afterwards.
Tensor updated_expert_bias(const Tensor& tokens_per_expert, const Tensor& expert_bias, Ratio rate,
                           Communicator& tp_dp_cp);

}  // namespace sim
