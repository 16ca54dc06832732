// Proves that a GPT training step refuses a placement with another number of stages, keeps as many
// microbatches in flight as the schedule says, and gives each sample to exactly one microbatch.

#include "sim/model/gpt_training.h"

#include <gtest/gtest.h>

#include "sim/cpu/cpu_device.h"
#include "sim/pipeline/schedules.h"
#include "sim/world/simulate.h"

namespace {

using namespace sim;

GptTrainingConfig config_of(int pp, int microbatches) {
  return {.model = {.num_layers = 4,
                    .hidden_size = 4,
                    .ffn_hidden_size = 4,
                    .num_attention_heads = 2,
                    .num_query_groups = 2,
                    .kv_channels = 2,
                    .seq_length = 2,
                    .vocab_size = 5,
                    .padded_vocab_size = 6},
          .placement = place_layers({.num_layers = 4, .pipeline_model_parallel_size = pp}),
          .pipeline = {.pipeline_model_parallel_size = pp, .num_microbatches = microbatches},
          .schedule = one_forward_one_backward};
}

Sample sample_of(std::int64_t number) {
  const auto id = static_cast<std::int32_t>(number % 5);
  return {{id, 1}, {1, 2}};
}

WorldSpec world(int tp, int pp, int dp) {
  WorldSpec spec = world_of(tp * pp * dp);
  spec.layout = make_layout(
      {.world_size = tp * pp * dp, .tensor_model_parallel_size = tp, .pipeline_model_parallel_size = pp},
      RuleBook::megatron);
  return spec;
}

TEST(GptTraining, RefusesAPlacementOfOtherStages) {
  CpuDevice device;
  const RunReport report = simulate(world(1, 2, 1), device, [](Rank& rank) {
    GptTrainingConfig config = config_of(2, 1);
    config.placement = place_layers({.num_layers = 4, .pipeline_model_parallel_size = 4});
    GptTraining(rank, config, sample_of);
  });
  EXPECT_EQ(report.findings.front().code, "gpt_training") << report.failure();
}

TEST(GptTraining, KeepsAsManyMicrobatchesAsTheScheduleSays) {
  CpuDevice device;
  std::vector<int> peaks(4);
  const RunReport report = simulate(world(1, 4, 1), device, [&](Rank& rank) {
    GptTraining training(rank, config_of(4, 8), sample_of);
    training.step(0, {1, 8});
    peaks[static_cast<std::size_t>(rank.id)] = training.most_in_flight();
  });
  ASSERT_TRUE(report.ok()) << report.failure();
  EXPECT_EQ(peaks, (std::vector<int>{4, 3, 2, 1}));
}

/// Returns the most bytes that each rank of a pipeline of four holds in two steps, and those that it holds more
/// after the second step than after the first.
struct Held {
  std::vector<std::int64_t> most = std::vector<std::int64_t>(4);
  std::vector<std::int64_t> kept = std::vector<std::int64_t>(4);
};
Held held_with(int microbatches) {
  CpuDevice device;
  Held held;
  const RunReport report = simulate(world(1, 4, 1), device, [&](Rank& rank) {
    const auto place = static_cast<std::size_t>(rank.id);
    GptTraining training(rank, config_of(4, microbatches), sample_of);
    training.step(0, {1, 8});
    held.kept[place] = -rank.device.held()->now();
    training.step(1, {1, 8});
    held.kept[place] += rank.device.held()->now();
    held.most[place] = rank.device.held()->most();
  });
  EXPECT_TRUE(report.ok()) << report.failure();
  return held;
}

TEST(GptTraining, HoldsNoMoreMemoryForMoreMicrobatches) {
  const Held few = held_with(5), many = held_with(12);
  EXPECT_EQ(few.most, many.most);
  EXPECT_EQ(few.kept, std::vector<std::int64_t>(4));
  EXPECT_EQ(many.kept, std::vector<std::int64_t>(4));
  for (std::size_t rank = 1; rank < 4; ++rank) EXPECT_GT(few.most[0], few.most[rank]);
}

TEST(BatchShape, GivesEachSampleToOneMicrobatch) {
  const BatchShape shape{.micro_batch_size = 2, .data_parallel_size = 3, .num_microbatches = 4};
  std::vector<int> seen(static_cast<std::size_t>(2 * shape.global_batch_size()));
  for (std::int64_t iteration = 0; iteration < 2; ++iteration) {
    for (int microbatch = 0; microbatch < 4; ++microbatch) {
      for (int rank = 0; rank < 3; ++rank) {
        const std::int64_t first = shape.first_sample(iteration, microbatch, rank);
        for (std::int64_t b = 0; b < 2; ++b) ++seen[static_cast<std::size_t>(first + b)];
      }
    }
  }
  EXPECT_EQ(seen, std::vector<int>(seen.size(), 1));
}

}  // namespace
