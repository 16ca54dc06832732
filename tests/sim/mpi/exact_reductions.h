#pragma once

/// A rank program of reductions alone, drawn from a seed. Its results have the same bits in whatever order
/// the members' contributions are added. It runs on virtual ranks and on processes whose reductions are
/// those of MPI.
///
/// Shapes  Each round starts two reductions of two dtypes in the world, in every group of the layout, in a
///         part of the world and in a new group. All ranks start them in one drawn order of the groups, and
///         each rank waits for them in an order of its own. One more reduction follows, for which some ranks
///         wait before a barrier and the others after it.
/// Calls   The program is correct on every layout of up to eight ranks.
/// Exact   Sums and averages are of small whole numbers, products of -1, 1 and 2. max, min and all reductions
///         of i32 are of any values. Every output is published. The results are a function of (seed, layout)
///         alone.

#include "sim/comm/rank.h"

namespace test {

void exact_reductions(sim::Rank& rank, std::uint64_t seed, int rounds);

}  // namespace test
