#pragma once

/// Trainings of a GPT on context-parallel ranks with typical programming mistakes: rank programs that publish
/// what the case cp_training publishes.

#include "verify/cases/case.h"

namespace test {

void loss_not_times_cp(sim::Rank& rank, const verify::CaseSetting& setting);
void loss_times_cp_twice(sim::Rank& rank, const verify::CaseSetting& setting);
void loss_per_token_times_cp(sim::Rank& rank, const verify::CaseSetting& setting);
void gradients_scaled_by_dp(sim::Rank& rank, const verify::CaseSetting& setting);
void each_rank_divides_by_its_tokens(sim::Rank& rank, const verify::CaseSetting& setting);
void balance_not_times_cp(sim::Rank& rank, const verify::CaseSetting& setting);
void norm_gradients_of_the_first_rank(sim::Rank& rank, const verify::CaseSetting& setting);
void labels_of_a_training_cut_in_one_piece(sim::Rank& rank, const verify::CaseSetting& setting);
void documents_of_a_training_forgotten(sim::Rank& rank, const verify::CaseSetting& setting);
void labels_of_documents_cut_as_a_sequence(sim::Rank& rank, const verify::CaseSetting& setting);

}  // namespace test
