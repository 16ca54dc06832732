#pragma once

/// A rank program of reductions alone, drawn from a seed, whose results are the same bits in whatever order
/// members are added up: to be run on virtual ranks and on processes whose reductions are MPI's.
///
/// Shapes  each round: two reductions of two dtypes in the world, in every group of the layout, in a part of
///         the world and in a new group; all of them started, in one drawn order of groups, and waited for by
///         each rank in an order of its own. Then one that some wait for before a barrier, and others behind
///         it.
/// Calls   right on every layout of up to eight ranks.
/// Exact   sums and averages are of small whole numbers, products of -1, 1 and 2; max, min and all of i32 are
///         of any. Publishes every output. A function of (seed, layout) alone.

#include "sim/comm/rank.h"

namespace test {

void exact_reductions(sim::Rank& rank, std::uint64_t seed, int rounds);

}  // namespace test
