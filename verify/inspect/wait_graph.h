#pragma once

/// Who waits for whom: a graph of ranks and of the calls that hold them.
///
/// A rank that a collective holds waits for every member that has not come to the call: it has not issued it,
/// or an earlier call holds its device. A rank that a message holds waits for its peer, until the peer is at
/// the other half or has completed it. No edge leads from a rank whose device is behind: nothing that it
/// waits for explains it.
///
/// Shapes  Node r is rank r, and node_of(c) is call c.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "verify/inspect/holding_call.h"
#include "verify/inspect/snapshots.h"
#include "verify/recorded_job/job.h"
#include "verify/recorded_job/pending_calls.h"

namespace verify {

// The ends of a directed graph: its strongly connected components from which no edge leads out.
//
// Shapes  edges[n] has the nodes to which edges of node n lead.
// Exact   Components come in the order of their smallest nodes, and their nodes ascend.
// Source  Tarjan 1972, as Boost.Graph has it.

using Edges = std::vector<std::vector<std::size_t>>;

/// Returns all of them, or those of several nodes from which no other one of several nodes is reached.
std::vector<std::vector<std::size_t>> final_components(const Edges& edges, bool only_circles = false);

/// Returns the nodes below `ranks` on a shortest circle of a component, ascending. Nodes from `ranks` on are
/// calls, which stand between ranks.
std::vector<int> shortest_circle(const Edges& edges, const std::vector<std::size_t>& component,
                                 std::size_t ranks);

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
  /// Returns, by rank, whether it is one of these ranks or waits for one, directly or by others.
  std::vector<bool> waiting_for(const std::vector<int>& ranks) const;
};

WaitGraph wait_graph_of(const Job& job, const Progresses& progresses, const Lags& lags);

}  // namespace verify
