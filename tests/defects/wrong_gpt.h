#pragma once

/// Training steps of a GPT with typical programming mistakes: rank programs that publish what the case
/// gpt_training publishes.

#include "verify/cases/case.h"

namespace test {

void microbatches_forgotten(sim::Rank& rank, const verify::CaseSetting& setting);
void tie_summed_before_the_reduction(sim::Rank& rank, const verify::CaseSetting& setting);
void tied_weight_counted_twice(sim::Rank& rank, const verify::CaseSetting& setting);
void every_replica_sees_the_same_samples(sim::Rank& rank, const verify::CaseSetting& setting);
void samples_of_the_first_iteration(sim::Rank& rank, const verify::CaseSetting& setting);
void labels_not_shifted(sim::Rank& rank, const verify::CaseSetting& setting);
void ignored_labels_counted(sim::Rank& rank, const verify::CaseSetting& setting);
void layer_number_of_the_next_stage(sim::Rank& rank, const verify::CaseSetting& setting);
void layer_held_by_two_stages(sim::Rank& rank, const verify::CaseSetting& setting);
void chunks_in_rank_order(sim::Rank& rank, const verify::CaseSetting& setting);
void gated_weight_resharded_as_one_block(sim::Rank& rank, const verify::CaseSetting& setting);
void positions_flagged_sequence_parallel(sim::Rank& rank, const verify::CaseSetting& setting);
void final_norm_flag_lost(sim::Rank& rank, const verify::CaseSetting& setting);
void flag_of_the_query_norms_lost(sim::Rank& rank, const verify::CaseSetting& setting);
void window_by_the_layer_of_the_stage(sim::Rank& rank, const verify::CaseSetting& setting);
void gradients_kept_from_the_step_before(sim::Rank& rank, const verify::CaseSetting& setting);
void updated_before_finalized(sim::Rank& rank, const verify::CaseSetting& setting);
void every_microbatch_in_flight(sim::Rank& rank, const verify::CaseSetting& setting);
void gradients_not_unscaled(sim::Rank& rank, const verify::CaseSetting& setting);
void gradients_unscaled_twice(sim::Rank& rank, const verify::CaseSetting& setting);

// Mistakes in a training of a model with experts, the case moe_training:
void experts_averaged_over_their_replicas(sim::Rank& rank, const verify::CaseSetting& setting);
void experts_scaled_as_if_etp_were_tp(sim::Rank& rank, const verify::CaseSetting& setting);
void experts_reduced_over_dense_replicas(sim::Rank& rank, const verify::CaseSetting& setting);
void dense_stage_leaves_the_norm_out(sim::Rank& rank, const verify::CaseSetting& setting);
void recomputed_tokens_counted_twice(sim::Rank& rank, const verify::CaseSetting& setting);
void balance_on_the_last_stage_only(sim::Rank& rank, const verify::CaseSetting& setting);
void balance_without_a_gradient(sim::Rank& rank, const verify::CaseSetting& setting);
void sequences_balanced_together(sim::Rank& rank, const verify::CaseSetting& setting);
void capacity_of_the_whole_microbatch(sim::Rank& rank, const verify::CaseSetting& setting);
void first_tokens_for_the_most_probable(sim::Rank& rank, const verify::CaseSetting& setting);
void capacity_not_padded(sim::Rank& rank, const verify::CaseSetting& setting);

// These steps give the right values, but make more calls or make them in another order.
void nothing_overlaps(sim::Rank& rank, const verify::CaseSetting& setting);

}  // namespace test
