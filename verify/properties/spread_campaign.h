#pragma once

/// A campaign whose runs are divided over the ranks of a world, each of which is a process with threads of
/// its own. It can be larger than one machine.
///
///   backend.run(world, cpu, [&](sim::Rank& rank) {
///     came_to_end = run_spread_campaign(rank, request, benches, rows, goes_on);
///   });
///
/// Shapes  each rank draws all settings, and runs its share of the portions (campaign_work.h).
/// Calls   All ranks call it with the same request, each with benches for its own threads. While the threads
///         work, the ranks meet at least once a second in an all_reduce (PULSE below), which tells them of
///         runs that are over, of an end, and of an interrupt of any rank. A rank that is dead or stopped does
///         not come to it, and the backend tells the others within its deadline. When all runs are over, one
///         all_reduce finds the first failure of each row and two add up the runs until then. Rank 0 shrinks
///         and explains the failures with its threads while the others go on meeting it.
///         PULSE: all_reduce(sum) of three numbers. Tensors are f64, in which whole numbers are exact.
///         GoesOn is called on each rank, by the thread that called this function, once for each pulse, with
///         the runs that are over on all ranks. If it returns false on any rank, all ranks stop.
/// Errors  none of its own. A run that fails on one process and holds on another is a failure that says so.
/// Exact   on rank 0 the rows are those of run_campaign() for any number of ranks and threads, unless the
///         campaign is stopped. On the other ranks the rows are not shrunk, and have a failure only where it
///         was their own.

#include <span>
#include <vector>

#include "sim/comm/rank.h"
#include "verify/properties/campaign.h"

namespace verify {

/// Returns, the same on every rank, whether the campaign came to its end.
bool run_spread_campaign(sim::Rank& rank, const CampaignRequest& request, std::span<Bench> benches,
                         std::vector<CampaignRow>& rows, const GoesOn& goes_on);

/// Returns rank 0's number on every rank.
std::int64_t number_of_rank_0(sim::Rank& rank, std::int64_t number);

}  // namespace verify
