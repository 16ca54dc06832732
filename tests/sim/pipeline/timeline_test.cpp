// Proves that the lengths of schedules equal the closed forms, and that ranks that wait for each other
// are found.

#include "sim/pipeline/timeline.h"

#include <gtest/gtest.h>
#include <map>
#include <rapidcheck/gtest.h>

#include "sim/pipeline/schedules.h"
#include "tests/support/drawn_pipeline.h"
#include "tests/support/refusal_code.h"
#include "tests/support/split_batches.h"

namespace {

using namespace sim;

// bubble / work is p - 1 without pipelining, (p - 1)/m for gpipe and 1f1b, and (p - 1)/(v m) for
// interleaved schedules. The test compares whole numbers.
RC_GTEST_PROP(Timeline, BubbleIsTheClosedForm, ()) {
  const auto [schedule, shape] = test::drawn_pipeline();
  const std::int64_t unit = *rc::gen::inRange(1, 4);
  const Timeline line = timeline(make_schedule(schedule.function, shape), {unit, unit});
  const std::int64_t steps = schedule.function == no_pipelining ? 1 : shape.forward_steps();
  RC_ASSERT(line.work == 2 * unit * shape.forward_steps());
  RC_ASSERT(line.bubble() * steps == (shape.ranks() - 1) * line.work);
}

// Without interleaving, the bubble is p - 1 forward and backward steps, however long a backward step takes.
RC_GTEST_PROP(Timeline, CostsOfBackwardKeepTheBubble, ()) {
  const PipelineShape shape{*rc::gen::inRange(1, 9), *rc::gen::inRange(1, 20)};
  const NamedSchedule schedule = *rc::gen::element(all_schedules()[1], all_schedules()[2]);
  RC_ASSERT(schedule.name == std::string("gpipe") || schedule.name == std::string("1f1b"));
  const std::int64_t forward = *rc::gen::inRange(1, 4);
  const std::int64_t backward = forward * *rc::gen::inRange(1, 4);
  const Timeline line = timeline(make_schedule(schedule.function, shape), {forward, backward});
  RC_ASSERT(line.bubble() == (shape.ranks() - 1) * (forward + backward));
}

RC_GTEST_PROP(Timeline, StepsDoNotOverlapAndInputsComeFirst, ()) {
  const auto [schedule, shape] = test::drawn_pipeline();
  const Timeline line = timeline(make_schedule(schedule.function, shape));
  std::map<std::pair<int, Step>, std::int64_t> ends;
  for (int rank = 0; rank < shape.ranks(); ++rank) {
    std::int64_t last = 0;
    for (const TimedStep& timed : line.ranks[static_cast<std::size_t>(rank)]) {
      RC_ASSERT(timed.begin >= last);
      last = timed.end;
      ends[{rank, timed.step}] = timed.end;
    }
  }
  for (int rank = 0; rank < shape.ranks(); ++rank) {
    for (const TimedStep& timed : line.ranks[static_cast<std::size_t>(rank)]) {
      if (const auto source = source_of(shape, rank, timed.step))
        RC_ASSERT((ends.at({source->rank, source->step}) <= timed.begin));
    }
  }
}

std::string code_of(const PipelineSchedule& schedule) {
  return test::refusal_code([&] { timeline(schedule); });
}

// Megatron couples what a rank sends with what it then waits for. If the messages go one after another,
// both neighbours send first and wait for each other.
TEST(PlantedWait, SendsThatAreNotCoupledWithReceives) {
  for (const int p : {2, 3, 5}) {
    PipelineSchedule schedule = make_schedule(one_forward_one_backward, {p, 6});
    EXPECT_EQ(code_of(schedule), "none");
    test::split_batches(schedule);
    EXPECT_EQ(code_of(schedule), "wait_cycle") << p;
  }
  PipelineSchedule schedule = make_schedule(interleaved, {4, 8, 2});
  test::split_batches(schedule);
  EXPECT_EQ(code_of(schedule), "wait_cycle");
}

// GPipe has no messages to couple.
TEST(PlantedWait, GpipeNeedsNoBatches) {
  PipelineSchedule schedule = make_schedule(gpipe, {4, 6});
  test::split_batches(schedule);
  EXPECT_EQ(code_of(schedule), "none");
}

// Megatron-LM #1450 and #1495: with two ranks and several chunks, the next and the previous rank are the
// same.
TEST(PlantedWait, MegatronsBatchOrderSwapsMessagesOfTwoRanks) {
  PipelineSchedule schedule = make_schedule(interleaved, {2, 4, 2});
  EXPECT_EQ(code_of(schedule), "none");
  test::order_as_megatrons_batch(schedule);
  EXPECT_EQ(code_of(schedule), "message_mismatch");
}

TEST(PlantedWait, AMessageThatNobodySends) {
  PipelineSchedule schedule = make_schedule(one_forward_one_backward, {2, 3});
  schedule.ranks[1].actions.pop_back();  // removes the send of the last gradient
  EXPECT_EQ(code_of(schedule), "unmatched_message");
  schedule.ranks[0].actions.back() = {std::nullopt, {{.is_send = true, .peer = 9, .input = {}}}};
  EXPECT_EQ(code_of(schedule), "unmatched_message");
}

TEST(Timeline, RefusesCostsAndLists) {
  const PipelineSchedule schedule = make_schedule(gpipe, {2, 2});
  for (const StepCost& cost : {StepCost{0, 1}, {1, 0}, {1, 1001}})
    EXPECT_EQ(test::refusal_code([&] { timeline(schedule, cost); }), "step_cost");
  PipelineSchedule short_one = schedule;
  short_one.ranks.clear();
  EXPECT_EQ(code_of(short_one), "schedule_ranks");
}

}  // namespace
