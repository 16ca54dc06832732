#pragma once

/// A campaign whose runs are divided over the ranks of a world, each of which is a process with threads of
/// its own. Such a campaign can be larger than one machine.
///
///   backend.run(world, cpu, [&](sim::Rank& rank) {
///     is_whole = run_spread_campaign(rank, request, benches, rows, goes_on);
///   });
///
/// Shapes  Each rank draws all settings and runs those of its share (campaign_work.h).
/// Calls   All ranks call it with the same request, each with benches for its own threads. While the threads
///         work, the ranks meet in an all_reduce(sum) of three f64, the pulse, at least once a second after
///         the slowest of them has come: it adds up the finished runs, and tells all ranks of the end and of
///         an interrupt. A rank that is dead or stopped does not come, and the backend tells the others
///         within its deadline. At the end, an all_reduce(min) finds the first failure of each row, and two
///         more add up the runs before it. Rank 0 then shrinks and explains the failures on its threads, and
///         the pulses go on until it has finished. Each rank calls its own GoesOn after each pulse, with the
///         finished runs of all ranks, on the thread that called this function. If it returns false on any
///         rank, all ranks stop.
/// Errors  none of its own. A run that fails on one process and holds on process 0 is a failure that says so.
/// Exact   On rank 0 the rows are those of run_campaign(), for any number of ranks and threads, unless the
///         campaign is stopped. The other ranks have the same numbers before shrinking, and only the failures
///         that they found themselves.

#include <span>
#include <vector>

#include "sim/comm/rank.h"
#include "verify/campaign/campaign.h"

namespace verify {

/// Returns, the same on every rank, whether the campaign came to its end.
bool run_spread_campaign(sim::Rank& rank, const CampaignRequest& request, std::span<Bench> benches,
                         std::vector<CampaignRow>& rows, const GoesOn& goes_on);

/// Returns rank 0's number on every rank.
std::int64_t number_of_rank_0(sim::Rank& rank, std::int64_t number);

}  // namespace verify
