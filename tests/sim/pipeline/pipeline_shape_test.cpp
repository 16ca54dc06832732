// Proves which shapes a schedule accepts, and which stages exchange messages.

#include "sim/pipeline/pipeline_shape.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "sim/pipeline/schedules.h"
#include "tests/support/refusal_code.h"

namespace {

using namespace sim;

std::string code_of(const PipelineShape& shape) {
  return test::refusal_code([&] { check(shape); });
}

TEST(PipelineShape, RefusesByName) {
  EXPECT_EQ(code_of({4, 8}), "none");
  EXPECT_EQ(code_of({0, 8}), "pipeline_sizes");
  EXPECT_EQ(code_of({4, -1}), "pipeline_sizes");
  EXPECT_EQ(code_of({4, 8, 0}), "pipeline_sizes");
  EXPECT_EQ(code_of({1, std::int64_t{1} << 31}), "schedule_size");
  EXPECT_EQ(code_of({1024, 1024}), "schedule_size");
  EXPECT_EQ(code_of({1024, 512}), "none");
  EXPECT_EQ(code_of({kMostSteps, kMostSteps, kMostSteps}), "schedule_size");
  EXPECT_EQ(code_of({1, 8, 1}), "vpp_needs_pp");
  EXPECT_EQ(code_of({.pipeline_model_parallel_size = 4,
                     .num_microbatches = 8,
                     .microbatch_group_size_per_virtual_pipeline_stage = 4}),
            "none")
      << "groups that nobody reads";
  EXPECT_EQ(code_of({.pipeline_model_parallel_size = 4,
                     .num_microbatches = 8,
                     .overlap_moe_expert_parallel_comm = true}),
            "overlap_needs_vpp");
  EXPECT_EQ(code_of({4, 3, 2}), "microbatch_group_size");
  EXPECT_EQ(code_of({4, 8, 2, 3}), "microbatch_group_size");
  EXPECT_EQ(code_of({4, 8, 2, 9}), "microbatch_group_size");
  EXPECT_EQ(code_of({4, 11, 2, 8}), "microbatch_group_remainder");
  EXPECT_EQ(code_of({4, 12, 2, 8}), "none");
}

TEST(PipelineShape, SchedulesTakeTheirOwnShapes) {
  for (const NamedSchedule& schedule : all_schedules()) {
    const auto code = [&](const PipelineShape& shape, int rank) {
      return test::refusal_code([&] { schedule.function(shape, rank); });
    };
    EXPECT_EQ(code({2, 2}, 0), schedule.is_interleaved ? "needs_chunks" : "none") << schedule.name;
    EXPECT_EQ(code({2, 2, 2}, 0), schedule.is_interleaved ? "none" : "not_interleaved") << schedule.name;
    EXPECT_EQ(code({2, 2}, 2), "pipeline_rank") << schedule.name;
    EXPECT_EQ(code({2, 2}, -1), "pipeline_rank") << schedule.name;
  }
}

TEST(PipelineShape, AChunkGoesOnAtTheFirstRank) {
  const PipelineShape shape{4, 8, 2};
  const Step last_of_chunk = {Pass::forward, 3, 0};
  EXPECT_EQ(consumer_of(shape, 3, last_of_chunk), (Peer{0, {Pass::forward, 3, 1}}));
  EXPECT_EQ(consumer_of(shape, 3, {Pass::forward, 3, 1}), std::nullopt);
  EXPECT_EQ(source_of(shape, 0, {Pass::forward, 3, 0}), std::nullopt);
  EXPECT_EQ(source_of(shape, 3, {Pass::backward, 3, 1}), std::nullopt);
  EXPECT_EQ(consumer_of(shape, 0, {Pass::backward, 3, 1}), (Peer{3, {Pass::backward, 3, 0}}));
  EXPECT_EQ(consumer_of(shape, 0, {Pass::backward, 3, 0}), std::nullopt);
}

RC_GTEST_PROP(PipelineShape, TheConsumersSourceIsTheStep, ()) {
  const PipelineShape shape{*rc::gen::inRange(2, 9), 5, *rc::gen::inRange(1, 5)};
  const int rank = *rc::gen::inRange(0, shape.ranks());
  const Step step = {*rc::gen::element(Pass::forward, Pass::backward), *rc::gen::inRange(0, 5),
                     *rc::gen::inRange(0, shape.chunks())};
  if (const auto consumer = consumer_of(shape, rank, step))
    RC_ASSERT(source_of(shape, consumer->rank, consumer->step) == (Peer{rank, step}));
  if (const auto source = source_of(shape, rank, step))
    RC_ASSERT(consumer_of(shape, source->rank, source->step) == (Peer{rank, step}));
}

}  // namespace
