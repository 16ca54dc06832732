#pragma once

/// Messages that do not end although both of their ends are at them: a send and its recv are pending, and
/// nothing that is pending before them holds either rank. A device or a link has stopped, or they are under
/// way.
///
/// Exact   A rank is at its first pending message, and at all messages of its batch; a batch is stuck where
///         every message of it is. Halves have one number where both dumps tell it (message_counts.h). Ranks
///         whose rings may have lost a pending call, and ranks whose devices are behind, are left out.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "verify/inspect/job.h"
#include "verify/inspect/lags.h"
#include "verify/inspect/pending_calls.h"

namespace verify {

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

}  // namespace verify
