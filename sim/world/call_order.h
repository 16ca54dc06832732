#pragma once

/// Checks whether all ranks make their collectives in one common order. A simulated world may complete even
/// if they do not, because calls were started and waited for later, but on a machine with finite channels
/// the same program can hang.
///
/// Shapes  `ranks` has one list of records for each rank.
/// Exact   the finding is a cycle of calls, each of which some rank makes before the next. It is found by a
///         topological order.
/// Source  NCCL user guide, on several communicators: the order of issue must agree on all ranks.

#include <optional>
#include <span>

#include "sim/comm/call_log.h"
#include "sim/world/finding.h"

namespace sim {

struct RankCalls {
  int rank;
  const CallLog& calls;
};

/// Returns a finding with a cycle of calls, or nothing if a common order exists.
std::optional<Finding> find_call_cycle(std::span<const RankCalls> ranks);

}  // namespace sim
