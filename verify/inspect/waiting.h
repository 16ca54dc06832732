#pragma once

/// Which ranks the others wait for, and how the wait spreads: how far ranks are behind (lags.h), the graph of
/// waits (wait_graph.h), and the ranks at its ends (suspects.h).
///
/// Exact   Nothing depends on the order of the files.

#include <cstdint>
#include <string>
#include <vector>

#include "verify/inspect/holding_call.h"
#include "verify/inspect/job.h"
#include "verify/inspect/pending_calls.h"
#include "verify/inspect/suspects.h"

namespace verify {

struct Waiting {
  std::vector<HoldingCall> calls;  // nearest to a suspect first
  Suspects suspects;
  std::vector<std::string> through;  // kinds or descriptions of the groups by which the wait spreads
  std::int64_t waiting_ranks = 0;    // that wait for a suspect, by other ranks or directly
  std::vector<int> idle;             // ranks with a whole dump and without a pending call
  std::vector<int> held;             // ranks with a pending call
  std::vector<int> lost;             // ranks whose ring may have lost a pending call
};

/// Returns the call that holds a rank, one that waits for others if there is one; null where none holds it.
const HoldingCall* find_call_of(const Waiting& waiting, int rank);

Waiting waiting_of(const Job& job, const Progresses& progresses);

}  // namespace verify
