#pragma once

/// Lets a caller look at the calls of a rank program, which is not changed: at the data that a rank gives to
/// a call, and at the result that it gets.
///
/// Calls   The watch is called on the rank that makes the call, and only reads. The program waits meanwhile.
///         Ranks that run on several threads call it at the same time.

#include <functional>

#include "sim/comm/rank.h"

namespace verify {

struct SeenCall {
  const sim::Rank& rank;
  const sim::ProcessGroup& group;
  int place;              // of the rank in the group
  const sim::Call& call;  // the number of the call in its group included
  bool is_over;           // whether the result is there
};
using CallWatch = std::function<void(const SeenCall& seen)>;

/// Returns the program, whose calls the watch sees in groups of several ranks: twice each, before it begins
/// and when its result is there.
sim::RankProgram with_watch(sim::RankProgram program, CallWatch watch);

}  // namespace verify
