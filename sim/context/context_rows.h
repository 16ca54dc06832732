#pragma once

/// The rows of a context-parallel rank: how a rank takes them from a whole tensor, and how all ranks put them
/// together again. Each is the conjugate of the other, where every rank has the same gradient of the whole.
///
/// Shapes  whole [S B, F], own [S/cp B, F]: token s of sequence b is in row s B + b, and own rows are in the
///         order of SequenceCut::rows_of.
/// Calls   own_context_rows: none. gathered_context_rows: one all_gather of own; none with one rank.
/// Exact   Both only move rows.

#include "sim/comm/communicator.h"
#include "sim/context/sequence_cut.h"

namespace sim {

Tensor own_context_rows(const Tensor& whole, const SequenceCut& cut, int rank, std::int64_t batch = 1);
Tensor gathered_context_rows(const Tensor& own, const SequenceCut& cut, Communicator& cp, Site site,
                             std::int64_t batch = 1);
/// Returns the blocks of `batch` rows with these numbers, in this order.
Tensor chosen_rows(const Tensor& x, const std::vector<std::int64_t>& numbers, std::int64_t batch = 1);

}  // namespace sim
