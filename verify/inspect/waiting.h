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
  std::vector<HoldingCall> calls;         // nearest to a suspect first
  std::vector<Suspect> suspects;          // ascending by rank
  std::vector<std::vector<int>> circles;  // suspects.h
  bool are_alone = false;                 // suspects.h
  std::vector<std::string> through;       // kinds or descriptions of the groups by which the wait spreads
  std::int64_t waiting_ranks = 0;         // that wait for a suspect, by other ranks or directly
  std::vector<int> lost;                  // ranks whose ring may have lost a pending call
  std::vector<int> unknown;  // ranks without a whole dump that are awaited, and may wait for a suspect
  bool is_ahead = false;     // the suspects have gone on where all others ended
  bool is_stuck = false;     // the suspects are all members of calls that do not end
  /// The suspects of circles have not come to this call, in which more ranks wait: "nccl:barrier, call 3 of
  /// the default group, in which ranks 0 to 5 wait, and waits in ...". "": there is no such call.
  std::string missed;
  bool is_unreceived = false;  // the suspects have not come to the other half of messages
};

Waiting waiting_of(const Job& job, const Progresses& progresses);

}  // namespace verify
