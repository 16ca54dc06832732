#pragma once

/// Whose program a thread runs: set around each step of a rank.
///
/// Errors  a program that comes to std::terminate() (an exception in a noexcept function, or the end of the
///         world there; a thread that was not joined) ends its rank, not the process: it is given up, with
///         the finding rank_terminated.

#include "sim/tensor/running_device.h"

namespace sim {

class RankState;

/// Once a world, before its ranks run.
void watch_for_terminate();

/// While it lives, this thread runs a rank's program.
class RunningRank {
 public:
  explicit RunningRank(RankState& rank);
  ~RunningRank();
  RunningRank(const RunningRank&) = delete;
  RunningRank& operator=(const RunningRank&) = delete;

 private:
  RankState* before_;
  RunningDevice device_;
};

}  // namespace sim
