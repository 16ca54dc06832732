#pragma once

/// What is known of a job that hung, as the rules ask for it that choose the suspects.

#include <cstddef>
#include <vector>

#include "verify/inspect/job.h"
#include "verify/inspect/lags.h"
#include "verify/inspect/pending_calls.h"
#include "verify/inspect/wait_graph.h"

namespace verify {

struct Evidence {
  const Job& job;
  const Progresses& progresses;
  const std::vector<Lag>& lags;
  const WaitGraph& graph;

  const Recording& recording(std::size_t dump) const { return job.recordings[dump]; }
  int rank_of(std::size_t dump) const { return recording(dump).rank; }
  /// Returns the dump of a rank; -1 where it has none.
  int dump_of(int rank) const { return job.dump_of_rank[static_cast<std::size_t>(rank)]; }

  bool is_early(int rank) const {
    return dump_of(rank) >= 0 && job.is_early[static_cast<std::size_t>(dump_of(rank))];
  }
  /// Whether a call that the ring of a rank has lost may hold the rank.
  bool may_have_lost(int rank) const {
    return dump_of(rank) >= 0 && progresses.may_have_lost(static_cast<std::size_t>(dump_of(rank)));
  }
  /// Whether the call that holds a rank is known by its number only: it may be another one than the others
  /// make under this number.
  bool has_lost_call_of(int rank) const {
    return dump_of(rank) >= 0 && !progresses.of(static_cast<std::size_t>(dump_of(rank))).lost.empty();
  }
  /// Returns the first of the calls that hold a rank, which must be held.
  const HoldingCall& first_call_of(int rank) const {
    return graph.calls[graph.fronts[static_cast<std::size_t>(dump_of(rank))].front()];
  }
};

}  // namespace verify
