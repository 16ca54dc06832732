#pragma once

/// Batches that are cut wrongly over context-parallel ranks. Each runs the program of cp_batch with the rows
/// of one tensor changed.
///
/// Source  mistakes of Megatron-LM, and of what is built on it.

#include "tests/defects/wrong_programs.h"

namespace test {

/// A tensor is cut into as many pieces as there are ranks, and the others in zigzag.
void tokens_cut_in_one_piece(sim::Rank& rank, const verify::CaseSetting& setting);
void labels_cut_in_one_piece(sim::Rank& rank, const verify::CaseSetting& setting);
void loss_mask_cut_in_one_piece(sim::Rank& rank, const verify::CaseSetting& setting);
void positions_cut_in_one_piece(sim::Rank& rank, const verify::CaseSetting& setting);
void rotary_cut_in_one_piece(sim::Rank& rank, const verify::CaseSetting& setting);

void second_half_goes_on_from_the_first(sim::Rank& rank, const verify::CaseSetting& setting);
void positions_of_the_row(sim::Rank& rank, const verify::CaseSetting& setting);
void rotary_begins_again_in_a_packed_table(sim::Rank& rank, const verify::CaseSetting& setting);
void odd_documents_divided_by_cp(sim::Rank& rank, const verify::CaseSetting& setting);
void borders_of_documents_ignored(sim::Rank& rank, const verify::CaseSetting& setting);

}  // namespace test
