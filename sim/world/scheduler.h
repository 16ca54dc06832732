#pragma once

/// Which of the ready ranks run in the next round, and in which order.
///
///   round_robin      all of them, ascending
///   uniform(seed)    each with an even chance, at least one, in a random order
///   pct(seed, depth) only the one of highest priority; priorities are random, and at depth - 1 random steps
///   the rank that
///                    runs falls behind all others. Finds a bug of that depth with a probability that is
///                    known
///
/// Shapes  ranks are slots, from 0 on.
/// Exact   the choice depends on the set of ready ranks, the seed and the history alone. hash() is over all
///         choices.
/// Source  Burckhardt et al. 2010, A randomized scheduler with probabilistic guarantees of finding bugs.

#include <cstdint>
#include <set>
#include <vector>

#include "sim/base/content_hash.h"
#include "sim/base/keyed_random.h"

namespace sim {

enum class SchedulePolicy { round_robin, uniform, pct };

struct Schedule {
  SchedulePolicy policy = SchedulePolicy::round_robin;
  std::uint64_t seed = 0;
  int depth = 3;  // of pct
};

class Scheduler {
 public:
  Scheduler(const Schedule& schedule, int ranks);

  /// A rank that is not ready can go on: from now on, until it is chosen, it is.
  void make_ready(int rank);
  bool has_ready() const { return !ready_.empty(); }
  /// Takes those that are to run from the ready ones, in the order of the round.
  void choose(std::vector<int>& chosen);
  /// Does a rank stop at every call, so that others may run in between? A rank of round_robin only stops to
  /// wait.
  bool stops_at_every_call() const { return schedule_.policy != SchedulePolicy::round_robin; }
  std::uint64_t hash() const { return hash_.value(); }

 private:
  void choose_uniform(std::vector<int>& chosen);
  void choose_pct(std::vector<int>& chosen);
  bool runs_later(int a, int b) const;

  Schedule schedule_;
  KeyedRandom random_;
  std::vector<int> ready_;  // of pct: a heap, the highest priority in front; else in any order
  std::uint64_t draws_ = 0;
  std::uint64_t step_ = 0;
  std::vector<std::int64_t> priorities_;  // of pct, by rank: the highest runs
  std::set<std::uint64_t> changes_;       // steps of pct at which the running rank falls behind
  std::int64_t lowest_ = 0;
  ContentHash hash_;
};

}  // namespace sim
