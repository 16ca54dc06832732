#pragma once

/// Layers with typical programming mistakes: rank programs that publish what a case publishes.

#include "verify/cases/case.h"

namespace test {

using WrongProgram = void (*)(sim::Rank& rank, const verify::CaseSetting& setting);

// Mistakes in row_parallel_linear:
void bias_before_the_sum(sim::Rank& rank, const verify::CaseSetting& setting);
void input_of_the_next_rank(sim::Rank& rank, const verify::CaseSetting& setting);
void output_over_tp(sim::Rank& rank, const verify::CaseSetting& setting);
void reads_before_the_sum_is_there(sim::Rank& rank, const verify::CaseSetting& setting);

// Mistakes in column_parallel_linear:
void strided_rows_cut_in_one_piece(sim::Rank& rank, const verify::CaseSetting& setting);
void every_rank_draws_its_own_weight(sim::Rank& rank, const verify::CaseSetting& setting);
void gathered_rows_of_the_next_rank(sim::Rank& rank, const verify::CaseSetting& setting);

// A mistake in gather_from_tensor_model_parallel_region:
void gather_whose_backward_sums(sim::Rank& rank, const verify::CaseSetting& setting);
// A mistake in all_gather_last_dim_from_tensor_parallel_region:
void gathered_along_the_wrong_axis(sim::Rank& rank, const verify::CaseSetting& setting);

// Mistakes in all_to_all_uneven:
void rows_of_the_peers_for_the_own(sim::Rank& rank, const verify::CaseSetting& setting);
void rows_of_the_next_rank_first(sim::Rank& rank, const verify::CaseSetting& setting);
void odd_rows_forgotten(sim::Rank& rank, const verify::CaseSetting& setting);

// A mistake in parallel_norm:
void flag_where_none_belongs(sim::Rank& rank, const verify::CaseSetting& setting);

// A mistake in mlp:
void gate_and_up_swapped(sim::Rank& rank, const verify::CaseSetting& setting);

// Mistakes in parallel_dropout:
void same_stream_in_sharded_region(sim::Rank& rank, const verify::CaseSetting& setting);
void streams_of_ranks_in_replicated_region(sim::Rank& rank, const verify::CaseSetting& setting);
void another_mask_backward(sim::Rank& rank, const verify::CaseSetting& setting);

}  // namespace test
