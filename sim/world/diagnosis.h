#pragma once

/// What is wrong with a world that stands still: no rank can run. Needs no clock and no luck: which calls are
/// left over does not depend on the schedule, so neither does the report.
///
/// Exact   findings in this order: what ranks threw; calls and messages whose sides disagree; ranks that wait
///         for one that has ended; cycles of waits, the shortest first; messages nobody asked for; works
///         nobody waited for; and, when all that is empty, orders of calls that only this schedule survived
///         (call_order.h). A rank that waits only because of an earlier finding is none of its own.

#include <vector>

#include "sim/world/finding.h"

namespace sim {

class VirtualWorld;

std::vector<Finding> diagnose(VirtualWorld& world);

}  // namespace sim
