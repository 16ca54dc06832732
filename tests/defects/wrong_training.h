#pragma once

/// Data-parallel training with typical programming mistakes: rank programs that publish what the case
/// distributed_optimizer publishes.

#include "verify/cases/case.h"

namespace test {

void gradients_not_zeroed(sim::Rank& rank, const verify::CaseSetting& setting);
void reduced_before_the_last_gradient(sim::Rank& rank, const verify::CaseSetting& setting);
void mean_of_means(sim::Rank& rank, const verify::CaseSetting& setting);
void tokens_of_the_own_rank(sim::Rank& rank, const verify::CaseSetting& setting);
void not_divided_by_tokens(sim::Rank& rank, const verify::CaseSetting& setting);
void divided_by_microbatches(sim::Rank& rank, const verify::CaseSetting& setting);
void parameters_not_waited_for(sim::Rank& rank, const verify::CaseSetting& setting);
void last_gather_forgotten(sim::Rank& rank, const verify::CaseSetting& setting);
void optimizer_holds_other_parameters(sim::Rank& rank, const verify::CaseSetting& setting);
void last_microbatch_dropped(sim::Rank& rank, const verify::CaseSetting& setting);
void stepped_once_a_microbatch(sim::Rank& rank, const verify::CaseSetting& setting);
void main_parameter_from_rounded_value(sim::Rank& rank, const verify::CaseSetting& setting);
void moments_forgotten(sim::Rank& rank, const verify::CaseSetting& setting);

void experts_reduced_as_dense(sim::Rank& rank, const verify::CaseSetting& setting);
void experts_divided_by_their_replicas(sim::Rank& rank, const verify::CaseSetting& setting);
void experts_not_divided_by_dp(sim::Rank& rank, const verify::CaseSetting& setting);
void experts_clipped_by_their_own_norm(sim::Rank& rank, const verify::CaseSetting& setting);
void padding_differs_by_rank(sim::Rank& rank, const verify::CaseSetting& setting);
void not_sharded_where_not_divisible(sim::Rank& rank, const verify::CaseSetting& setting);
void unscaled_by_the_next_scale(sim::Rank& rank, const verify::CaseSetting& setting);

void only_the_last_bucket_saved(sim::Rank& rank, const verify::CaseSetting& setting);
void moments_not_loaded(sim::Rank& rank, const verify::CaseSetting& setting);
void step_counter_not_loaded(sim::Rank& rank, const verify::CaseSetting& setting);
void weights_active_after_the_next_step(sim::Rank& rank, const verify::CaseSetting& setting);
void slices_off_by_one(sim::Rank& rank, const verify::CaseSetting& setting);
void one_rank_keeps_its_stale_shard(sim::Rank& rank, const verify::CaseSetting& setting);
void saved_before_the_update(sim::Rank& rank, const verify::CaseSetting& setting);

}  // namespace test
