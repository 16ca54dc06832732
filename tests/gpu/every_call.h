#pragma once

/// A rank program that is drawn from a seed and makes every operation of a communicator in every group of its layout, and in groups that
/// it makes, in the dtypes of NCCL: about half of them started, and waited for up to three steps later.
///
/// Calls   right on every layout. kEveryCall * (kinds + 1) steps make every operation in every kind of group.
/// Exact   publishes every output. A function of (seed, layout) alone.

#include <string>

#include "sim/comm/rank.h"
#include "sim/comm/rank_report.h"

namespace test {

inline constexpr int kEveryCall = 14;

void every_call(sim::Rank& rank, std::uint64_t seed, int steps);

/// "" where both published the same bytes and recorded the same calls.
std::string first_difference(const sim::RankReport& expected, const sim::RankReport& found);

}  // namespace test
