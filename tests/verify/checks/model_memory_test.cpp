// Proves that what ranks hold adds up to the model on every layout, and that the bytes are those of ZeRO-1.

#include "verify/checks/model_memory.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <sstream>
#include <string>

#include "verify/options/settings.h"

namespace {

using namespace verify;

std::optional<std::int64_t> drawn_channels() {
  const std::int64_t channels = *rc::gen::inRange(0, 9);
  return channels == 0 ? std::nullopt : std::optional(channels);
}

ModelShape drawn_shape(int tp, std::int64_t layers) {
  const std::int64_t heads = tp * *rc::gen::inRange(1, 4);
  return {.num_layers = layers,
          .hidden_size = heads * *rc::gen::inRange(1, 5) * 2,
          .ffn_hidden_size = tp * *rc::gen::inRange(1, 20),
          .num_attention_heads = heads,
          .num_query_groups = *rc::gen::arbitrary<bool>() ? heads : tp,
          .kv_channels = drawn_channels(),
          .vocab_size = *rc::gen::inRange(1, 2000),
          .seq_length = *rc::gen::inRange(1, 50),
          .gated_mlp = *rc::gen::arbitrary<bool>(),
          .linear_bias = *rc::gen::arbitrary<bool>(),
          .add_qkv_bias = *rc::gen::arbitrary<bool>(),
          .untied_output = *rc::gen::arbitrary<bool>(),
          .rms_norm = *rc::gen::arbitrary<bool>(),
          .learned_positions = *rc::gen::arbitrary<bool>()};
}

RC_GTEST_PROP(ModelMemory, WhatRanksHoldAddsUpToTheModel, ()) {
  const int tp = *rc::gen::inRange(1, 5), dp = *rc::gen::inRange(1, 5), pp = *rc::gen::inRange(1, 4);
  const std::int64_t layers = pp * *rc::gen::inRange(1, 4);
  const sim::Layout layout = sim::make_layout(
      {.world_size = tp * dp * pp, .tensor_model_parallel_size = tp, .pipeline_model_parallel_size = pp},
      sim::RuleBook::megatron);
  const sim::LayerPlacement placement =
      sim::place_layers({.num_layers = layers, .pipeline_model_parallel_size = pp});
  const MemoryReport report = check_memory(drawn_shape(tp, layers), layout, placement, std::nullopt);
  RC_ASSERT(std::ssize(report.stages) == pp);
  const CheckResult& row = report.row;
  RC_ASSERT(row.check == "memory");
  RC_ASSERT(row.holds);
}

TEST(ModelMemory, ALayerTooFewIsFound) {
  const sim::Layout layout =
      sim::make_layout({.world_size = 2, .pipeline_model_parallel_size = 2}, sim::RuleBook::megatron);
  sim::LayerPlacement placement = sim::place_layers({.num_layers = 4, .pipeline_model_parallel_size = 2});
  const ModelShape shape{.num_layers = 4,
                         .hidden_size = 8,
                         .ffn_hidden_size = 32,
                         .num_attention_heads = 2,
                         .num_query_groups = 2,
                         .vocab_size = 128,
                         .seq_length = 4};
  EXPECT_TRUE(check_memory(shape, layout, placement, std::nullopt).row.holds);
  placement.stages[1][0].count = 1;
  EXPECT_FALSE(check_memory(shape, layout, placement, std::nullopt).row.holds);
}

TEST(ModelMemory, InstancesOfTheOptimizerShareNoStates) {
  const ModelShape shape{.num_layers = 1,
                         .hidden_size = 8,
                         .ffn_hidden_size = 32,
                         .num_attention_heads = 2,
                         .num_query_groups = 2,
                         .vocab_size = 128,
                         .seq_length = 4};
  const sim::LayerPlacement placement = sim::place_layers({.num_layers = 1});
  for (const int instances : {1, 2, 4}) {
    const sim::Layout layout = sim::make_layout(
        {.world_size = 4, .num_distributed_optimizer_instances = instances}, sim::RuleBook::megatron);
    EXPECT_EQ(check_memory(shape, layout, placement, std::nullopt).owners, 4 / instances);
  }
}

RC_GTEST_PROP(ModelMemory, BytesAreTwoAndFourAndTwelveOverTheOwners, ()) {
  const int owners = *rc::gen::inRange(1, 17);
  const std::int64_t elements = 128 * owners * *rc::gen::inRange(1, 50);  // nothing needs padding
  const HeldBytes bytes = held_bytes({{elements}}, owners);
  RC_ASSERT(bytes.parameters == 2 * elements);
  RC_ASSERT(bytes.gradients == 4 * elements);
  RC_ASSERT(bytes.optimizer == 12 * elements / owners);
}

/// The bytes of an element over one owner: parameter, gradient and optimizer states, and the words for them.
std::string bytes_of(const std::string& words) {
  Settings settings;
  std::istringstream stream(words);
  for (std::string word; stream >> word;) {
    const std::size_t equals = word.find('=');
    settings.append(word.substr(0, equals), {equals == std::string::npos ? "true" : word.substr(equals + 1)});
  }
  const StateBytes bytes = state_bytes(settings);
  return fmt::format("{} + {} + {} ({})", bytes.parameter, bytes.gradient, bytes.optimizer, bytes.dtypes);
}

// The first three are the table of Megatron's manual of the distributed optimizer: 6 + 12/d, 4 + 16/d, 8 +
// 8/d.
TEST(ModelMemory, DtypesGiveTheBytesOfAnElement) {
  EXPECT_EQ(bytes_of(""), "2 + 4 + 12 (bf16)");
  EXPECT_EQ(bytes_of("fp16"), "2 + 2 + 16 (fp16 with gradients in fp16, optimizer states of 16 bytes)");
  EXPECT_EQ(bytes_of("bf16=false"), "4 + 4 + 8 (fp32, optimizer states of 8 bytes)");
  EXPECT_EQ(bytes_of("bf16 grad-reduce-in-bf16 accumulate-allreduce-grads-in-fp32"),
            "2 + 2 + 16 (bf16 with gradients in bf16, optimizer states of 16 bytes)");
  EXPECT_EQ(bytes_of("fp16 accumulate-allreduce-grads-in-fp32"), "2 + 4 + 12 (fp16)");
  const std::string aware = "use-precision-aware-optimizer ";
  EXPECT_EQ(bytes_of(aware), "2 + 4 + 10 (bf16, optimizer states of 10 bytes)");
  EXPECT_EQ(bytes_of(aware + "main-grads-dtype=bf16 main-params-dtype=fp16 exp-avg-dtype=fp8 "
                             "exp-avg-sq-dtype=bf16"),
            "2 + 2 + 5 (bf16 with gradients in bf16, optimizer states of 5 bytes)");
  EXPECT_EQ(bytes_of(aware + "bf16=false"), "4 + 4 + 8 (fp32, optimizer states of 8 bytes)");
}

TEST(ModelMemory, CountsTheBytesThatDtypesGive) {
  const StateBytes half{.parameter = 2, .gradient = 2, .optimizer = 16};
  const HeldBytes shared = held_bytes({{1024}}, 4, half);
  EXPECT_EQ(shared.parameters, 2 * 1024);
  EXPECT_EQ(shared.gradients, 2 * 1024);
  EXPECT_EQ(shared.optimizer, 16 * 1024 / 4);
  const HeldBytes whole = held_bytes({{10}, {7}}, 1, {.is_distributed = false});
  EXPECT_EQ(whole.parameters, 2 * 17) << "nothing is padded";
  EXPECT_EQ(whole.gradients, 4 * 17);
  EXPECT_EQ(whole.optimizer, 12 * 17);
}

TEST(ModelMemory, TheVocabularyIsPaddedToItsDivisor) {
  ModelShape shape{.hidden_size = 1, .ffn_hidden_size = 1, .num_attention_heads = 1, .vocab_size = 100};
  const auto words = [&](int tp) { return held_parameters(shape, {.is_first = true}, tp).front().elements; };
  EXPECT_EQ(words(2), 128);
  shape.make_vocab_size_divisible_by = 30;
  EXPECT_EQ(words(2), 60);
  EXPECT_EQ(padded_vocabulary(50257, 8, 128), 51200);
  EXPECT_EQ(padded_vocabulary(50257, 1, 1), 50257);
  EXPECT_EQ(padded_vocabulary(1, 8, 0), std::nullopt);
}

}  // namespace
