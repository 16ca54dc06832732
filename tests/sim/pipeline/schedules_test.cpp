// Proves that every schedule of every shape obeys the rules of schedules, and that each rule detects a
// mistake planted for it.

#include "sim/pipeline/schedules.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <set>

#include "sim/pipeline/schedule_checks.h"
#include "sim/pipeline/timeline.h"
#include "tests/support/drawn_pipeline.h"
#include "tests/support/refusal_code.h"
#include "tests/support/split_batches.h"

namespace {

using namespace sim;

// The steps are counted here a second time, from the definition alone.
RC_GTEST_PROP(Schedules, EveryStepOnceAndBackwardAfterForward, ()) {
  auto [schedule, shape] = test::drawn_pipeline();
  shape.forward_only = *rc::gen::arbitrary<bool>();
  for (const RankSchedule& rank : make_schedule(schedule.function, shape).ranks) {
    std::set<std::pair<int, int>> forward, backward;
    for (const Step& step : steps_of(rank)) {
      const std::pair unit(step.microbatch, step.chunk);
      RC_ASSERT(unit.first >= 0 && unit.first < shape.num_microbatches);
      RC_ASSERT(unit.second >= 0 && unit.second < shape.chunks());
      if (step.pass == Pass::backward) RC_ASSERT(forward.contains(unit));
      RC_ASSERT((step.pass == Pass::forward ? forward : backward).insert(unit).second);
    }
    const auto all = static_cast<std::size_t>(shape.forward_steps());
    RC_ASSERT(forward.size() == all);
    RC_ASSERT(backward.size() == (shape.forward_only ? 0 : all));
  }
}

// Sends match receives, no ranks wait in a cycle, inputs arrive before they are used, and the number of
// live activations is the stated one.
RC_GTEST_PROP(Schedules, HoldEveryRule, ()) {
  auto [schedule, shape] = test::drawn_pipeline();
  shape.forward_only = *rc::gen::arbitrary<bool>();
  check(make_schedule(schedule.function, shape));
}

int expected_warmup(const NamedSchedule& schedule, const PipelineShape& shape, int rank) {
  const int p = shape.ranks(), m = shape.microbatches(), v = shape.chunks();
  if (schedule.function == no_pipelining) return 0;
  if (schedule.function == gpipe) return m;
  if (schedule.function == one_forward_one_backward) return std::min(p - rank - 1, m);
  const int more = shape.overlap_moe_expert_parallel_comm ? 1 : 0;
  return std::min(2 * (p - rank - 1) + (v - 1) * shape.group_size() + more, v * m);
}

RC_GTEST_PROP(Schedules, KeepAsManyActivationsAsTheClosedFormSays, ()) {
  const auto [schedule, shape] = test::drawn_pipeline();
  for (int rank = 0; rank < shape.ranks(); ++rank) {
    const RankSchedule written = schedule.function(shape, rank);
    const int warmup = expected_warmup(schedule, shape, rank);
    RC_ASSERT(written.warmup == warmup);
    RC_ASSERT(counted_peak(written) == std::min(warmup + 1, shape.forward_steps()));
    RC_ASSERT(written.peak_live == counted_peak(written));
  }
}

// The order of the interleaved schedule on one rank, with the microbatch numbers of Megatron's tables.
TEST(Schedules, InterleavedTakesItsGroupsThroughAllChunks) {
  const PipelineShape shape{2, 5, 2, 3};
  std::string order;
  for (const Step& step : steps_of(interleaved(shape, 1))) {
    order += step.pass == Pass::forward ? "F" : "B";
    order += std::to_string(step.microbatch) + (step.chunk == 0 ? "a " : "b ");
  }
  EXPECT_EQ(order, "F0a F1a F2a F0b B0b F1b B1b F2b B2b F3a B0a F4a B1a F3b B2a F4b B3b B4b B3a B4a ");
}

// ---- Planted mistakes ----

PipelineSchedule plain() { return make_schedule(one_forward_one_backward, {3, 4}); }

std::string code_of(const PipelineSchedule& schedule) {
  return test::refusal_code([&] { check(schedule); });
}

/// Returns the index of the action in which rank `rank` computes the step.
std::size_t place_of(const PipelineSchedule& schedule, int rank, const Step& step) {
  const auto& actions = schedule.ranks[static_cast<std::size_t>(rank)].actions;
  const auto found =
      std::find_if(actions.begin(), actions.end(), [&](const Action& action) { return action.step == step; });
  EXPECT_NE(found, actions.end());
  return static_cast<std::size_t>(found - actions.begin());
}

TEST(PlantedSchedule, AMissingMicrobatch) {
  PipelineSchedule schedule = plain();
  auto& actions = schedule.ranks[2].actions;
  std::erase_if(actions, [](const Action& action) {
    return action.step && action.step->microbatch == 3 && action.step->pass == Pass::backward;
  });
  // The gradient of the removed step is still sent.
  EXPECT_EQ(code_of(schedule), "schedule_order");
  std::erase_if(actions, [](const Action& action) {
    return !action.step && action.messages.front().input == Step{Pass::backward, 3};
  });
  EXPECT_EQ(code_of(schedule), "schedule_steps");
}

TEST(PlantedSchedule, AStepTwice) {
  PipelineSchedule schedule = plain();
  auto& actions = schedule.ranks[0].actions;
  actions.push_back(actions[place_of(schedule, 0, {Pass::backward, 2})]);
  EXPECT_EQ(code_of(schedule), "schedule_steps");
}

TEST(PlantedSchedule, AMicrobatchThatIsNotThere) {
  PipelineSchedule schedule = plain();
  schedule.ranks[0].actions[place_of(schedule, 0, {Pass::forward, 2})].step->microbatch = 4;
  EXPECT_EQ(code_of(schedule), "schedule_steps");
}

TEST(PlantedSchedule, BackwardBeforeForward) {
  PipelineSchedule schedule = make_schedule(no_pipelining, {1, 2});
  std::swap(schedule.ranks[0].actions[0], schedule.ranks[0].actions[1]);
  EXPECT_EQ(code_of(schedule), "schedule_steps");
}

TEST(PlantedSchedule, AStepBeforeItsInput) {
  PipelineSchedule schedule = plain();
  auto& actions = schedule.ranks[1].actions;
  const std::size_t place = place_of(schedule, 1, {Pass::forward, 0});
  std::swap(actions[place - 1], actions[place]);
  EXPECT_EQ(code_of(schedule), "schedule_order");
}

TEST(PlantedSchedule, ASendBeforeItsStep) {
  PipelineSchedule schedule = plain();
  auto& actions = schedule.ranks[0].actions;
  const std::size_t place = place_of(schedule, 0, {Pass::forward, 0});
  std::swap(actions[place], actions[place + 1]);
  EXPECT_EQ(code_of(schedule), "schedule_order");
}

TEST(PlantedSchedule, AnOutputThatIsNotSentOrSentTwice) {
  PipelineSchedule schedule = plain();
  auto& actions = schedule.ranks[0].actions;
  const std::size_t send = place_of(schedule, 0, {Pass::forward, 0}) + 1;
  PipelineSchedule twice = schedule;
  twice.ranks[0].actions.push_back(actions[send]);
  EXPECT_EQ(code_of(twice), "schedule_order");
  actions.erase(actions.begin() + static_cast<std::ptrdiff_t>(send));
  EXPECT_EQ(code_of(schedule), "schedule_order");
}

TEST(PlantedSchedule, AWrongPeer) {
  for (const int peer : {0, 2, 3, -1}) {
    PipelineSchedule schedule = plain();
    auto& actions = schedule.ranks[0].actions;
    actions[place_of(schedule, 0, {Pass::forward, 0}) + 1].messages[0].peer = peer;
    EXPECT_EQ(code_of(schedule), "schedule_route") << peer;
  }
  PipelineSchedule schedule = plain();
  schedule.ranks[1].actions[0].messages[0].peer = 2;
  EXPECT_EQ(code_of(schedule), "schedule_route");
}

TEST(PlantedSchedule, AnInputOfNoUse) {
  PipelineSchedule schedule = plain();
  auto& actions = schedule.ranks[1].actions;
  PipelineSchedule twice = schedule;
  twice.ranks[1].actions.push_back(actions[0]);
  EXPECT_EQ(code_of(twice), "schedule_order");
  // This message could belong to the next training step.
  actions.push_back({std::nullopt, {{.is_send = false, .peer = 0, .input = {Pass::forward, 4}}}});
  EXPECT_EQ(code_of(schedule), "schedule_route");
}

TEST(PlantedSchedule, OneMoreLiveActivation) {
  PipelineSchedule schedule = make_schedule(no_pipelining, {1, 3});
  // The order is now F0 F1 B0 B1 F2 B2.
  std::swap(schedule.ranks[0].actions[1], schedule.ranks[0].actions[2]);
  EXPECT_EQ(code_of(schedule), "schedule_peak");
}

// The actions of each rank are correct by themselves, but together the ranks wait for each other.
TEST(PlantedSchedule, SendsThatAreNotCoupled) {
  PipelineSchedule schedule = plain();
  test::split_batches(schedule);
  for (int rank = 0; rank < 3; ++rank)
    require_rank(schedule.shape, rank, schedule.ranks[static_cast<std::size_t>(rank)]);
  EXPECT_EQ(code_of(schedule), "wait_cycle");
}

TEST(PlantedSchedule, AListIsMissing) {
  PipelineSchedule schedule = plain();
  schedule.ranks.pop_back();
  EXPECT_EQ(code_of(schedule), "schedule_ranks");
}

}  // namespace
