#pragma once

/// Dumps that were written before the job stopped: they end before a collective that has completed elsewhere
/// and needs their ranks, or before a send whose message another rank has received. So were those of most
/// members of a collective that is pending there, and has completed on fewer of them; or on as many, if these
/// have no pending call and are known to have written theirs later. Nothing is read off the pending calls of
/// such a rank: they may have ended since, and others may have been made.
///
/// Exact   Only calls that need all members (operation.h) tell of an early dump, and sends only where both
///         dumps have every call. Where only "pg_status" counts a call as completed, a dump is early if an
///         earlier call, which needs all members, is pending there.
/// Times   Where the members that have completed a call issued it a minute or more after those in whose dumps
///         it is pending, and all of them issued the call before it at nearly one time, the dumps of the
///         latter are early, however many they are: they were written while these waited.

#include <cstdint>
#include <vector>

#include "verify/inspect/holding_call.h"
#include "verify/inspect/job.h"
#include "verify/inspect/pending_calls.h"

namespace verify {

inline constexpr std::int64_t kSecond = 1'000'000'000;  // ns

struct EarlyDumps {
  std::vector<int> ranks;  // ascending
  /// The first group in which a dump ends early, the last collective of it that has completed somewhere, and
  /// a rank that has completed it; -1 where only messages tell.
  std::uint32_t group = 0;
  std::int64_t sequence = 0;
  int completed_by = -1;
  /// The rank that alone has completed the calls that are pending in the early dumps: it came to them last.
  /// -1: there is no such rank.
  int last = -1;
  HoldingCall last_call;     // one of these calls, and the ranks in whose dumps it is pending
  std::int64_t late_ns = 0;  // how long after these ranks the last one issued it; 0: not known, or not long
};

EarlyDumps early_dumps_of(const Job& job, const Progresses& progresses);

/// Marks the early dumps of a job, unless all are early: no call of theirs is pending then (pending_calls.h).
void mark_early_dumps(const EarlyDumps& early, Job& job);

}  // namespace verify
