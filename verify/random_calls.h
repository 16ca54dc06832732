#pragma once

/// A rank program that is drawn from a seed and makes every operation of a communicator, in every group of its layout and in groups
/// that it makes: to be run in two ways, on virtual ranks and on real processes, that have to agree.
///
/// Shapes  step i is operation i modulo their number, in a group, a dtype and sizes that are drawn; about half of them started, and
///         waited for up to three steps later. kOperations * (kinds + 1) steps make every operation in every kind of group.
/// Calls   right on every layout: all ranks go through the same steps, and those that are in no group of a step's kind leave it out.
///         In a group of one nothing is split, and in a world of one no group made.
/// Exact   publishes every output. A function of (seed, layout) alone.

#include "sim/comm/rank.h"

namespace verify {

inline constexpr int kOperations = 14;

void random_calls(sim::Rank& rank, std::uint64_t seed, int steps);

}  // namespace verify
