#pragma once

/// The rank whose program the current thread runs. The world sets it around each step of a rank.
///
/// Errors  a program that calls std::terminate() (because an exception or the end of the world reaches a
///         noexcept function, or because a thread was not joined) ends its rank and not the process: the
///         rank is given up with the finding rank_terminated. On a thread that runs no rank it ends the
///         process (process_end.h).

#include <atomic>

#include "sim/base/refusal_watch.h"
#include "sim/tensor/running_device.h"
#include "sim/world/rank_state.h"

namespace sim {

/// Installs the handler for std::terminate(). Each world calls it before its ranks run; only the first call
/// does anything.
void watch_for_terminate();

/// While an object of this class lives, its thread runs the program of the rank.
class RunningRank {
 public:
  explicit RunningRank(RankState& rank)
      : before_(current()), device_(rank.device.get()), refusals_(&rank.refusal_limit) {
    set(&rank);
  }
  ~RunningRank() { set(before_); }
  RunningRank(const RunningRank&) = delete;
  RunningRank& operator=(const RunningRank&) = delete;

  static RankState* current() { return running_.load(std::memory_order_relaxed); }
  /// The rank that the calling thread runs, for other threads (silence.h).
  static const std::atomic<RankState*>& of_this_thread() { return running_; }
  /// The thread runs the program of another rank in the place of the one that it runs.
  static void hand_over(RankState& rank) {
    set(&rank);
    RunningDevice::hand_over(rank.device.get());
    WatchedRefusals::hand_over(&rank.refusal_limit);
  }

 private:
  static void set(RankState* rank) { running_.store(rank, std::memory_order_relaxed); }

  static inline constinit thread_local std::atomic<RankState*> running_ = nullptr;
  RankState* before_;
  RunningDevice device_;
  WatchedRefusals refusals_;
};

/// Returns the rank whose program this thread runs; null if it runs none. Signal handlers may call it.
inline const RankState* running_rank() { return RunningRank::current(); }

}  // namespace sim
