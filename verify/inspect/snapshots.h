#pragma once

/// How the dumps of a job fit together in time: a call that needs all members and has completed on one was
/// issued by all. So a dump in which it is pending, or which does not have it, is older than that of the
/// member, or the device of its rank is behind.
///
///   older   The dump does not have the call, which no host skips; or the call is one of gloo, which has no
///           device. The job ran while the dumps were written.
///   lags    The call is pending there: the dump is older, or the device has not seen it end.
///
/// Exact   Only calls that need all members tell (JobCall::needs_all), and sends whose message was received,
///         where both dumps have every call. An all_to_all tells only if it is taken: a member without rows
///         for another one completes it although this one has not come to it.
/// Times   The slowest rank issued the last call that a whole group has after all its other members. It came
///         late if that was kLate (chosen) or more after them, while they waited in it, and all of them had
///         issued the call before it at nearly one time: clocks of hosts differ.

#include <cstdint>
#include <optional>
#include <vector>

#include "verify/inspect/holding_call.h"
#include "verify/recorded_job/job.h"
#include "verify/recorded_job/pending_calls.h"

namespace verify {

inline constexpr std::int64_t kSecond = 1'000'000'000;  // ns
inline constexpr std::int64_t kLate = 60 * kSecond;

enum class AllToAlls : std::uint8_t { left_out, taken };

/// A call that has completed elsewhere, and is pending in a dump or not in it.
struct Lag {
  CollectiveId call;                // of a send its group, and sequence 0
  std::int64_t completed = 0;       // the last collective of the group that has completed elsewhere
  int completed_by = -1;            // a rank
  std::optional<HoldingCall> send;  // that this rank has received
};

/// By dump.
using Lags = std::vector<std::optional<Lag>>;

struct Slowest {
  int rank = -1;         // -1: the times do not tell
  HoldingCall call;      // which it issued last, and the other members
  std::int64_t ns = 0;   // how long after these
  bool is_late = false;  // it came after the others had written the dumps in which they wait
};

struct Snapshots {
  Lags lags, older;
  bool are_older() const;
  /// Returns the ranks of the dumps that are older, or of those whose devices may be behind.
  std::vector<int> ranks_of(const Job& job, const Lags& of) const;
};

Snapshots snapshots_of(const Job& job, const Progresses& progresses, AllToAlls all_to_alls);

Slowest slowest_of(const Job& job, const Progresses& progresses);

}  // namespace verify
