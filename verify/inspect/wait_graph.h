#pragma once

/// Who waits for whom: a graph of ranks and of the calls that hold them.
///
/// A rank that a collective holds waits for every member that has not come to the call: it has not issued it,
/// or an earlier call holds its device. A rank that a message holds waits for its peer, until the peer is at
/// the other half or has completed it. No edge leads from a rank whose device is behind (lags.h): nothing
/// that it waits for explains it.
///
/// Shapes  Node r is rank r, and node_of(c) is call c.

#include <cstddef>
#include <vector>

#include "verify/inspect/holding_call.h"
#include "verify/inspect/job.h"
#include "verify/inspect/lags.h"
#include "verify/inspect/pending_calls.h"
#include "verify/inspect/strong_components.h"

namespace verify {

struct WaitGraph {
  std::size_t world = 0;
  std::vector<HoldingCall> calls;
  std::vector<std::vector<std::size_t>> fronts;  // by dump, the calls that hold it
  Edges edges;                                   // by node
  std::vector<bool> is_awaited;                  // by rank
  /// By rank: it has no dump, or one that ends before the calls that hold it.
  std::vector<bool> is_unknown;

  std::size_t node_of(std::size_t call) const { return world + call; }
  /// Returns the calls that wait for each rank.
  std::vector<std::vector<std::size_t>> callers() const;
};

WaitGraph wait_graph_of(const Job& job, const Progresses& progresses, const std::vector<Lag>& lags);

}  // namespace verify
