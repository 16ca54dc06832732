#pragma once

/// Messages that the rings have lost. In a group of two every message counts on both members, so where they
/// have issued different numbers of messages, and have no pending one, the other halves are missing.
///
/// Exact   A number is the largest op_id of the rank's calls in the group, which counts every call there, also
///         those of a batch. It is known where the ring still has a call of the group, or has lost nothing. In
///         larger groups one number counts the messages to all members, so nothing is said of them.

#include <cstdint>
#include <vector>

#include "verify/inspect/job.h"
#include "verify/inspect/pending_calls.h"

namespace verify {

struct UnmatchedMessages {
  std::uint32_t group = 0;
  int more = 0, fewer = 0;  // the ranks that have issued more and fewer messages
  std::int64_t more_messages = 0, fewer_messages = 0;
};

/// Returns them by group, of ranks that have no pending call.
std::vector<UnmatchedMessages> unmatched_messages(const Job& job, const Progresses& progresses);

}  // namespace verify
