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
#include <string>
#include <vector>

#include "verify/inspect/holding_call.h"
#include "verify/inspect/job.h"
#include "verify/inspect/pending_calls.h"

namespace verify {

// lags.cpp: ranks whose devices are known to be behind. A collective is pending on the rank that another
// member has completed, or a send that its peer has received; its own device has taken part in it, so nothing
// that it waits for explains this. A host that is behind is no such sign: a rank that reads the loss of a
// step, to log it, issues less than the others do.

/// Whether an all_to_all that a member has completed is taken for a call in which all took part. A member
/// without rows for another one completes it although this one has not come to it.
enum class AllToAlls : std::uint8_t { left_out, taken };

/// By dump, how its device is behind, in a sentence; "" where it is not known to be.
using Lags = std::vector<std::string>;

Lags lags_of(const Job& job, const Progresses& progresses, AllToAlls all_to_alls);

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

// What is known of a job that hung, as the rules ask for it that choose the suspects.

struct Evidence {
  const Job& job;
  const Progresses& progresses;
  const Lags& lags;
  const WaitGraph& graph;

  bool is_early(int rank) const { return job.dump_of(rank) && job.is_early[*job.dump_of(rank)]; }
  /// Whether the dump of a rank ends in the middle: it may have more calls than it shows.
  bool is_cut(int rank) const {
    const Recording* const own = job.find_recording(rank);
    return own != nullptr && own->is_truncated;
  }
  bool is_idle(int rank) const { return job.dump_of(rank) && progresses.is_idle(*job.dump_of(rank)); }
  /// Whether a call that the ring of a rank has lost may hold the rank.
  bool may_have_lost(int rank) const {
    return job.dump_of(rank) && progresses.may_have_lost(*job.dump_of(rank));
  }
  /// Whether the call that holds a rank is known by its number only: it may be another one than the others
  /// make under this number.
  bool has_lost_call_of(int rank) const {
    return job.dump_of(rank) && !progresses.of(*job.dump_of(rank)).lost.empty();
  }

  // Of ranks that have a dump.

  std::ptrdiff_t stage_of(int rank) const { return job.stage_of(*job.dump_of(rank)); }
  std::int64_t last_issued(int rank, std::uint32_t group) const {
    return progresses.last_issued(*job.dump_of(rank), group);
  }
  /// Returns the calls that hold a rank, as indices into those of the graph.
  const std::vector<std::size_t>& front_of(int rank) const { return graph.fronts[*job.dump_of(rank)]; }
  /// Returns the first of the calls that hold a rank, which must be held.
  const HoldingCall& first_call_of(int rank) const { return graph.calls[front_of(rank).front()]; }
  /// Whether a call that holds a rank waits for another one.
  bool waits_for(int rank, int other) const;
  /// Returns a message that waits for a rank; null where there is none.
  const HoldingCall* message_that_awaits(int rank) const;
  std::string words_of(const HoldingCall& call) const { return call_words(job, call); }
};

}  // namespace verify
