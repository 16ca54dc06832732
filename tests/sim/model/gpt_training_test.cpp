// Proves that a GPT training step refuses a placement with another number of stages, keeps as many
// microbatches in flight as the schedule says, and gives each sample to exactly one microbatch.

#include "sim/model/gpt_training.h"

#include <algorithm>
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

/// The bytes that tensors hold now, and the most that they held.
struct Held {
  std::int64_t now = 0;
  std::int64_t most = 0;
};

/// A device that counts the bytes of the tensors of each rank.
class WeighedDevice : public CpuDevice {
 public:
  explicit WeighedDevice(std::vector<Held>& held) : held_(held) {}

  std::shared_ptr<Device> for_rank(int rank) override {
    return std::shared_ptr<Device>(new WeighedDevice(*this, rank));
  }
  Tensor empty(DType dtype, const Shape& shape) override {
    struct Weighed {
      ~Weighed() { held.now -= tensor.bytes(); }
      Tensor tensor;
      Held& held;
      std::shared_ptr<const void> device;
    };
    Held& held = held_[static_cast<std::size_t>(rank_)];
    const std::shared_ptr<Weighed> weighed(
        new Weighed{CpuDevice::empty(dtype, shape), held, weak_from_this().lock()});
    held.now += weighed->tensor.bytes();
    held.most = std::max(held.most, held.now);
    return {*this, dtype, shape, std::shared_ptr<Storage>(weighed, &weighed->tensor.storage())};
  }

 private:
  WeighedDevice(const WeighedDevice& whole, int rank)
      : CpuDevice(whole, rank), held_(whole.held_), rank_(rank) {}

  std::vector<Held>& held_;  // by rank
  int rank_ = 0;
};

/// What each rank of a pipeline of four holds at most in two steps, and what the second step leaves behind.
struct HeldBytes {
  std::vector<std::int64_t> most, kept;
};
HeldBytes held_with(int microbatches) {
  std::vector<Held> held(4);
  std::vector<std::int64_t> kept(4);
  HeldBytes result;
  WeighedDevice device(held);
  const RunReport report = simulate(world(1, 4, 1), device, [&](Rank& rank) {
    const auto place = static_cast<std::size_t>(rank.id);
    GptTraining training(rank, config_of(4, microbatches), sample_of);
    training.step(0, {1, 8});
    kept[place] = held[place].now;
    training.step(1, {1, 8});
    kept[place] = held[place].now - kept[place];
  });
  EXPECT_TRUE(report.ok()) << report.failure();
  for (const Held& each : held) result.most.push_back(each.most);
  result.kept = kept;
  return result;
}

TEST(GptTraining, HoldsNoMoreMemoryForMoreMicrobatches) {
  const HeldBytes few = held_with(5), many = held_with(12);
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
