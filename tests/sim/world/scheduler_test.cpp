// Proves that the choice of a scheduler depends only on the set of ready ranks, the seed and the history.

#include "sim/world/scheduler.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <set>
#include <vector>

namespace {

using namespace sim;

Schedule drawn_schedule() {
  return {.policy = static_cast<SchedulePolicy>(*rc::gen::inRange(0, 3)),
          .seed = *rc::gen::arbitrary<std::uint64_t>(),
          .depth = *rc::gen::inRange(1, 5)};
}

RC_GTEST_PROP(Scheduler, ChoosesFromTheReadyWhateverTheirOrder, ()) {
  const int ranks = *rc::gen::inRange(1, 20);
  const Schedule schedule = drawn_schedule();
  Scheduler one(schedule, ranks);
  Scheduler other(schedule, ranks);
  std::set<int> ready;
  std::vector<int> arriving;
  for (int rank = 0; rank < ranks; ++rank) arriving.push_back(rank);
  for (int step = 0; step < 30; ++step) {
    for (auto next = arriving.begin(); next != arriving.end(); ++next) one.make_ready(*next);
    for (auto next = arriving.rbegin(); next != arriving.rend(); ++next) other.make_ready(*next);
    ready.insert(arriving.begin(), arriving.end());
    std::vector<int> chosen, chosen_again;
    one.choose(chosen);
    other.choose(chosen_again);
    RC_ASSERT(chosen == chosen_again);
    RC_ASSERT(!chosen.empty());
    RC_ASSERT(schedule.policy != SchedulePolicy::pct || chosen.size() == 1U);
    for (const int rank : chosen) RC_ASSERT(ready.erase(rank) == 1U);
    RC_ASSERT(schedule.policy != SchedulePolicy::round_robin || ready.empty());
    RC_ASSERT(one.has_ready() == !ready.empty());
    arriving = chosen;
  }
  RC_ASSERT(one.hash() == other.hash());
}

/// Counts the different schedules that 50 seeds give for 8 ranks that are always ready, over 20 steps.
std::size_t different_schedules(SchedulePolicy policy) {
  std::set<std::uint64_t> hashes;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Scheduler scheduler({.policy = policy, .seed = seed}, 8);
    std::vector<int> chosen = {0, 1, 2, 3, 4, 5, 6, 7};
    for (int step = 0; step < 20; ++step) {
      for (const int rank : chosen) scheduler.make_ready(rank);
      scheduler.choose(chosen);
    }
    hashes.insert(scheduler.hash());
  }
  return hashes.size();
}

TEST(Scheduler, SeedsGiveDifferentSchedules) {
  EXPECT_EQ(different_schedules(SchedulePolicy::uniform), 50U);
  EXPECT_GT(different_schedules(SchedulePolicy::pct),
            8U);  // the rank that runs first gives 8 schedules, and later turns give more
  EXPECT_EQ(different_schedules(SchedulePolicy::round_robin), 1U);
}

TEST(Scheduler, UniformRoundsAreInAnyOrder) {
  std::set<std::vector<int>> whole_rounds;  // rounds in which all three ranks run
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Scheduler scheduler({.policy = SchedulePolicy::uniform, .seed = seed}, 3);
    for (int rank = 0; rank < 3; ++rank) scheduler.make_ready(rank);
    std::vector<int> chosen;
    scheduler.choose(chosen);
    if (chosen.size() == 3U) whole_rounds.insert(chosen);
  }
  EXPECT_EQ(whole_rounds.size(), 6U);
}

// All ranks are always ready. The rank that runs goes on until it falls behind, and its next turn comes
// after all other ranks.
TEST(Scheduler, PctTakesTurnsThatEndAtDepthLessOneSteps) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Scheduler scheduler({.policy = SchedulePolicy::pct, .seed = seed, .depth = 6}, 4);
    std::vector<int> chosen = {0, 1, 2, 3};
    std::vector<int> turns;
    for (int step = 0; step <= 4 * 4 + 64; ++step) {
      for (const int rank : chosen) scheduler.make_ready(rank);
      scheduler.choose(chosen);
      if (turns.empty() || turns.back() != chosen.front()) turns.push_back(chosen.front());
    }
    ASSERT_EQ(turns.size(), 6U) << seed;
    EXPECT_EQ(std::set<int>(turns.begin(), turns.begin() + 4).size(), 4U) << seed;
    EXPECT_EQ(turns[4], turns[0]) << seed;
    EXPECT_EQ(turns[5], turns[1]) << seed;
  }
}

}  // namespace
