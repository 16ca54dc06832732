#pragma once

/// Do all ranks make their collectives in one common order? A world may survive when they do not, because
/// calls were started and waited for later; on a machine with finite channels the same program can hang.
///
/// Shapes  one list of records a rank.
/// Exact   a cycle of calls, each of which some rank makes before the next; found by topological order.
/// Source  NCCL user guide, on several communicators: the order of issue must agree on all ranks.

#include <optional>
#include <span>

#include "sim/world/finding.h"

namespace sim {

struct RankCalls {
  int rank;
  std::span<const CallRecord> calls;
};

std::optional<Finding> find_call_cycle(std::span<const RankCalls> ranks);

}  // namespace sim
