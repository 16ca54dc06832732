#pragma once

/// The scheduler chooses which of the ready ranks run in the next round, and in which order.
///
///   round_robin       all ready ranks, in ascending order
///   uniform(seed)     each ready rank with probability 1/2, but at least one, in a random order
///   pct(seed, depth)  only the ready rank with the highest priority. Priorities are random, and at depth - 1
///                     random steps the rank that runs gets a priority below all others. This finds a bug
///                     of that depth with a known probability
///
/// Shapes  ranks are slots, numbered from 0.
/// Exact   the choice depends only on the set of ready ranks, the seed and the earlier choices. hash() is a
///         hash over all choices.
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
  int depth = 3;  // used by pct only
};

class Scheduler {
 public:
  Scheduler(const Schedule& schedule, int ranks);

  /// Makes a rank ready that is not ready. It stays ready until it is chosen.
  void make_ready(int rank) {
    ready_.push_back(rank);
    if (schedule_.policy == SchedulePolicy::pct) sift_up();
  }
  bool has_ready() const { return !ready_.empty(); }
  /// Moves the ranks that run in the next round from the ready ones to `chosen`, in the order of the round.
  void choose(std::vector<int>& chosen);
  /// Whether a rank stops at every call, so that others may run in between. With round_robin a rank stops
  /// only to wait.
  bool stops_at_every_call() const { return schedule_.policy != SchedulePolicy::round_robin; }
  std::uint64_t hash() const { return hash_.value(); }

 private:
  void choose_uniform(std::vector<int>& chosen);
  void choose_pct(std::vector<int>& chosen);
  void sift_up();
  bool runs_later(int a, int b) const;

  Schedule schedule_;
  KeyedRandom random_;
  std::vector<int> ready_;                // pct: a heap with the highest priority in front; else in any order
  std::uint64_t draws_ = 0;               // number of random values drawn so far
  std::uint64_t step_ = 0;                // number of rounds so far
  std::vector<std::int64_t> priorities_;  // pct, by rank: the ready rank with the highest priority runs
  std::set<std::uint64_t> changes_;       // pct: steps at which the running rank gets the lowest priority
  std::int64_t lowest_ = 0;               // pct: the lowest priority so far
  ContentHash hash_;
};

}  // namespace sim
