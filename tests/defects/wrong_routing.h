#pragma once

/// Routers, auxiliary losses and dispatchers of tokens with a mistake. Each runs the program of its case with
/// one thing changed.
///
/// Source  mistakes of Megatron-LM, and of what is built on it.

#include "tests/defects/wrong_programs.h"

namespace test {

// token_dispatcher
void counts_read_in_the_order_of_etp(sim::Rank& rank, const verify::CaseSetting& setting);
void outputs_not_sorted_back(sim::Rank& rank, const verify::CaseSetting& setting);
void probabilities_applied_twice(sim::Rank& rank, const verify::CaseSetting& setting);

// moe_router
void capacity_of_all_tokens(sim::Rank& rank, const verify::CaseSetting& setting);
/// The router computes in bf16, where it should in f32.
void router_in_the_dtype_of_the_layer(sim::Rank& rank, const verify::CaseSetting& setting);
void ties_broken_otherwise_in_recomputation(sim::Rank& rank, const verify::CaseSetting& setting);
void z_loss_not_times_tokens(sim::Rank& rank, const verify::CaseSetting& setting);

// moe_aux_loss
void global_loss_over_dp(sim::Rank& rank, const verify::CaseSetting& setting);
void losses_not_times_cp(sim::Rank& rank, const verify::CaseSetting& setting);
void counts_of_each_microbatch_alone(sim::Rank& rank, const verify::CaseSetting& setting);

}  // namespace test
