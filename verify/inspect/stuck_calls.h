#pragma once

/// Calls to which every member has come and that do not end. Where the recorder knew which devices have begun
/// one, the others are named.
///
/// Several of them are those of a job that ran while the dumps were written, or of a network that stopped:
/// then nobody is named. A call holds none of its ranks where one of these waits in a send, too; where that
/// is so of all calls, those who have not received are named. Members are named instead that have completed
/// such a call, where dumps of active calls alone do not tell which it was.

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "verify/inspect/job.h"
#include "verify/inspect/lags.h"
#include "verify/inspect/pending_calls.h"
#include "verify/inspect/suspects.h"

namespace verify {

// Messages that do not end although both of their ends are at them: a send and its recv are pending, and
// nothing that is pending before them holds either rank. A device or a link has stopped, or they are under
// way.
//
// Exact   A rank is at its first pending message, and at all messages of its batch; a batch is stuck where
//         every message of it is. Halves have one number where both dumps tell it. Ranks
//         whose rings may have lost a pending call, and ranks whose devices are behind, are left out.

/// One end of a message that is stuck.
struct StuckMessage {
  int rank = 0;
  std::size_t dump = 0;
  std::uint32_t call = 0;  // index into the calls of the dump
  std::uint32_t group = 0;
  std::int64_t sequence = 0;  // the call's p2p_seq_id
};

/// Returns the first such message of each rank, in the order of the dumps.
std::vector<StuckMessage> stuck_messages_of(const Job& job, const Progresses& progresses,
                                            const std::vector<Lag>& lags);

/// What is said of stuck calls; the members are those of Suspects.
struct StuckCalls {
  std::map<int, Suspect> ranks;
  bool is_stuck = false, are_behind = false, is_unreceived = false;
  std::string counted;
  std::size_t running = 0;
};

/// Returns the collectives among these components that can end: every member has come to them, its dump is
/// there and not cut, and nothing else holds it.
std::vector<const HoldingCall*> collectives_that_can_end(
    const Evidence& know, const std::vector<std::vector<std::size_t>>& components);

/// Judges the components of the graph that are single calls.
StuckCalls stuck_calls(const Evidence& know, const std::vector<std::vector<std::size_t>>& components);

}  // namespace verify
