#pragma once

/// Finds what is wrong with a world in which no rank can run any more. It needs no clock, and the report does
/// not depend on the schedule, because the calls that are left over do not depend on it.
///
/// Exact   findings have this order: exceptions of ranks, those with a reason of their own before those that
///         another rank caused (refused_elsewhere.h); calls and messages whose sides disagree; ranks that
///         wait for a rank that has ended; cycles of waits, the shortest first; messages that nobody
///         received, if there are no findings so far; calls that nobody waited for; and, if there are no
///         findings so far, orders of calls that only this schedule survived (call_order.h). A rank that
///         waits only because of an earlier finding gets no finding of its own.

#include <vector>

#include "sim/world/finding.h"
#include "sim/world/group_state.h"
#include "sim/world/rank_state.h"

namespace sim {

/// Returns all findings; empty if nothing is wrong. `ranks` are sorted by global rank.
std::vector<Finding> diagnose(const RankStates& ranks, const GroupTable& groups);

}  // namespace sim
