// Proves that what ranks hold adds up to the model on every layout, and that the bytes are those of ZeRO-1.

#include "verify/memory/model_memory.h"

#include <algorithm>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "sim/cpu/cpu_device.h"
#include "sim/model/gpt_model.h"
#include "sim/world/simulate.h"
#include "verify/vocabulary/derived_options.h"
#include "verify/vocabulary/layer_pattern.h"
#include "verify/vocabulary/settings.h"

namespace {

using namespace verify;

sim::GptConfig drawn_shape(int tp, std::int64_t layers) {
  const std::int64_t heads = tp * *rc::gen::inRange(1, 4);
  return {.num_layers = layers,
          .hidden_size = heads * *rc::gen::inRange(1, 5) * 2,
          .ffn_hidden_size = tp * *rc::gen::inRange(1, 20),
          .num_attention_heads = heads,
          .num_query_groups = *rc::gen::arbitrary<bool>() ? heads : tp,
          .kv_channels = *rc::gen::inRange(0, 9),
          .seq_length = *rc::gen::inRange(1, 50),
          .vocab_size = *rc::gen::inRange(1, 2000),
          .rotary_base = *rc::gen::element<std::int64_t>(0, 10'000),
          .normalization = *rc::gen::element(sim::Norm::layer_norm, sim::Norm::rms_norm),
          .gated = *rc::gen::arbitrary<bool>(),
          .bias = *rc::gen::arbitrary<bool>(),
          .add_qkv_bias = *rc::gen::arbitrary<bool>(),
          .qk_layernorm = *rc::gen::arbitrary<bool>(),
          .untie_embeddings_and_output_weights = *rc::gen::arbitrary<bool>()};
}

RC_GTEST_PROP(ModelMemory, WhatRanksHoldAddsUpToTheModel, ()) {
  const int tp = *rc::gen::inRange(1, 5), dp = *rc::gen::inRange(1, 5), pp = *rc::gen::inRange(1, 4);
  const std::int64_t layers = pp * *rc::gen::inRange(1, 4);
  const sim::Layout layout = sim::make_layout(
      {.world_size = tp * dp * pp, .tensor_model_parallel_size = tp, .pipeline_model_parallel_size = pp},
      sim::RuleBook::megatron);
  const sim::LayerPlacement placement =
      sim::place_layers({.num_layers = layers, .pipeline_model_parallel_size = pp});
  const MemoryReport report = check_memory(drawn_shape(tp, layers), layout, placement, {});
  RC_ASSERT(std::ssize(report.stages) == pp);
  const CheckResult& row = report.row;
  RC_ASSERT(row.check == "memory");
  RC_ASSERT(row.holds);
}

// ---- experts

struct Grid {
  int tp = 1, pp = 1, dp = 1, ep = 1, etp = 1, cp = 1;
  int world() const { return tp * pp * dp * cp; }
  ShardSizes shards() const { return {.tp = tp, .ep = ep, .etp = etp}; }
  sim::Layout layout() const {
    return sim::make_layout({.world_size = world(),
                             .tensor_model_parallel_size = tp,
                             .pipeline_model_parallel_size = pp,
                             .context_parallel_size = cp,
                             .expert_model_parallel_size = ep,
                             .expert_tensor_parallel_size = etp},
                            sim::RuleBook::megatron);
  }
};

Grid drawn_grid(int most_replicas) {
  Grid grid;
  grid.tp = *rc::gen::element(1, 2);
  grid.pp = *rc::gen::element(1, 2);
  grid.dp = *rc::gen::inRange(1, most_replicas + 1);
  grid.ep = *rc::gen::element(1, 2, 4);
  grid.etp = *rc::gen::element(1, 2);
  RC_PRE(grid.tp * grid.dp % (grid.ep * grid.etp) == 0);
  return grid;
}

/// A model with layers of experts. Experts that are cut over etp have no bias, nor have shared experts.
sim::GptConfig drawn_with_experts(const Grid& grid, std::int64_t layers) {
  sim::GptConfig shape = drawn_shape(2, layers);
  shape.make_vocab_size_divisible_by = *rc::gen::inRange(1, 5);
  sim::GptExperts& experts = shape.experts;
  experts.num_experts = 4;
  experts.routing.topk = 2;
  experts.moe_ffn_hidden_size = 2 * *rc::gen::inRange(1, 9);
  experts.moe_layer_freq = parse_layer_pattern(*rc::gen::element<std::string>("1", "2", "[0,1]", "[1,1,0]"));
  experts.shared_expert_intermediate_size = 2 * *rc::gen::inRange(0, 3);
  experts.shared_expert_gate = *rc::gen::arbitrary<bool>();
  if (grid.etp > 1 || experts.shared_expert_intermediate_size > 0) shape.bias = false;
  return shape;
}

RC_GTEST_PROP(ModelMemory, ExpertsOfAllRanksAddUpToTheModel, ()) {
  Grid grid = drawn_grid(8);
  grid.cp = *rc::gen::element(1, 2);
  const std::int64_t layers = grid.pp * *rc::gen::inRange(1, 4);
  const sim::GptConfig shape = drawn_with_experts(grid, layers);
  const sim::LayerPlacement placement =
      sim::place_layers({.num_layers = layers, .pipeline_model_parallel_size = grid.pp});
  const sim::Layout layout = grid.layout();
  const MemoryReport report = check_memory(shape, layout, placement, {});
  RC_ASSERT(report.row.holds);
  RC_ASSERT(report.owners == grid.dp * grid.cp);
  RC_ASSERT(report.expert_owners == (grid.shards().has_expert_grid() ? layout.edp : 0));
}

sim::GptConfig config_of(const sim::GptConfig& shape, const Grid& grid) {
  sim::GptConfig config = shape;
  config.padded_vocab_size =
      *padded_vocabulary(shape.vocab_size, grid.tp, shape.make_vocab_size_divisible_by);
  config.sequence_parallel = grid.tp > 1;
  config.experts.moe_layer_freq.entries.clear();
  for (std::int64_t layer = 0; layer < shape.num_layers; ++layer)
    config.experts.moe_layer_freq.entries.push_back(shape.experts.are_in(layer) ? 1 : 0);
  return config;
}

/// The sizes of the parameters of a rank, in ascending order, those of experts with buffers of their own
/// apart.
using Sizes = std::pair<std::vector<std::int64_t>, std::vector<std::int64_t>>;

Sizes sorted(Sizes sizes) {
  std::ranges::sort(sizes.first);
  std::ranges::sort(sizes.second);
  return sizes;
}

Sizes counted_sizes(const sim::GptConfig& shape, const Stage& stage, const Grid& grid) {
  Sizes sizes;
  for (const HeldParameter& held : held_parameters(shape, stage, grid.shards()))
    (held.is_expert && grid.shards().has_expert_grid() ? sizes.second : sizes.first).push_back(held.elements);
  // Megatron's router has a bias where linear layers have one; that of the simulator has none.
  for (const sim::StageLayers& layers : stage.layers) {
    for (int layer = layers.offset; layer < layers.offset + layers.count; ++layer) {
      if (!shape.bias || !shape.experts.are_in(layer)) continue;
      sizes.first.erase(std::ranges::find(sizes.first, shape.experts.num_experts));
    }
  }
  return sorted(sizes);
}

Sizes sizes_of(sim::GptModel& model) {
  Sizes sizes;
  for (const sim::Parameter* parameter : model.parameters())
    (parameter->attributes.allreduce ? sizes.first : sizes.second).push_back(parameter->value.count());
  return sorted(sizes);
}

RC_GTEST_PROP(ModelMemory, RanksHoldTheParametersOfTheSimulatedModel, ()) {
  const Grid grid = drawn_grid(4);
  const std::int64_t layers = grid.pp * *rc::gen::inRange(1, 3);
  sim::GptConfig shape = drawn_with_experts(grid, layers);
  shape.kv_channels = 2 * *rc::gen::inRange(1, 3);  // rotary positions turn pairs
  shape.seq_length = 2 * *rc::gen::inRange(1, 5);
  const sim::LayerPlacement placement =
      sim::place_layers({.num_layers = layers, .pipeline_model_parallel_size = grid.pp});
  std::vector<Sizes> simulated(static_cast<std::size_t>(grid.world()));
  std::vector<int> stages(simulated.size());
  sim::CpuDevice device;
  const sim::RunReport run = sim::simulate({.layout = grid.layout()}, device, [&](sim::Rank& rank) {
    const int stage = rank.groups.get("pp").rank();
    const sim::StageLayers chunk = placement.stages[static_cast<std::size_t>(stage)].front();
    sim::GptModel model(rank, config_of(shape, grid),
                        {.first_layer = chunk.offset,
                         .num_layers = chunk.count,
                         .pre_process = stage == 0,
                         .post_process = stage + 1 == grid.pp});
    simulated[static_cast<std::size_t>(rank.id)] = sizes_of(model);
    stages[static_cast<std::size_t>(rank.id)] = stage;
  });
  if (!run.ok()) RC_FAIL(run.failure());
  for (std::size_t rank = 0; rank < simulated.size(); ++rank) {
    const Stage stage{.layers = placement.stages[static_cast<std::size_t>(stages[rank])],
                      .is_first = stages[rank] == 0,
                      .is_last = stages[rank] + 1 == grid.pp};
    RC_ASSERT(counted_sizes(shape, stage, grid) == simulated[rank]);
  }
}

TEST(ModelMemory, ExpertsHaveTheirStatesFromTheirOwnReplicas) {
  const Grid grid{.tp = 2, .dp = 4, .ep = 2, .etp = 1};  // edp is 4
  const sim::GptConfig shape{.num_layers = 1,
                             .hidden_size = 64,
                             .ffn_hidden_size = 64,
                             .num_attention_heads = 2,
                             .num_query_groups = 2,
                             .seq_length = 4,
                             .vocab_size = 256,
                             .rotary_base = 10'000,
                             .normalization = sim::Norm::rms_norm,
                             .bias = false,
                             .untie_embeddings_and_output_weights = true,
                             .experts = {.num_experts = 4, .moe_ffn_hidden_size = 64}};
  const sim::LayerPlacement placement = sim::place_layers({.num_layers = 1});
  const MemoryReport report = check_memory(shape, grid.layout(), placement, {});
  const std::int64_t experts = 2 * 2 * 64 * 64;  // 2 experts on a rank
  const std::int64_t dense = 2 * 128 * 64 + 2 * 64 * 64 + 4 * 64 + 3 * 64;
  EXPECT_EQ(report.stages[0].expert_parameters, 2 * experts);
  const std::int64_t padded = (dense + 511) / 512 * 512;  // to 4 owners times 128
  EXPECT_EQ(report.stages[0].parameters, 2 * (padded + experts));
  EXPECT_NE(report.row.detail.find("experts, whose states have 4 owners"), std::string::npos)
      << report.row.detail;
  EXPECT_EQ(report.stages[0].gradients, 2 * report.stages[0].parameters);
}

// ---- ranks and bytes

TEST(ModelMemory, ALayerTooFewIsFound) {
  const sim::Layout layout =
      sim::make_layout({.world_size = 2, .pipeline_model_parallel_size = 2}, sim::RuleBook::megatron);
  sim::LayerPlacement placement = sim::place_layers({.num_layers = 4, .pipeline_model_parallel_size = 2});
  const sim::GptConfig shape{.num_layers = 4,
                             .hidden_size = 8,
                             .ffn_hidden_size = 32,
                             .num_attention_heads = 2,
                             .num_query_groups = 2,
                             .seq_length = 4,
                             .vocab_size = 128};
  EXPECT_TRUE(check_memory(shape, layout, placement, {}).row.holds);
  placement.stages[1][0].count = 1;
  EXPECT_FALSE(check_memory(shape, layout, placement, {}).row.holds);
}

TEST(ModelMemory, InstancesOfTheOptimizerShareNoStates) {
  const sim::GptConfig shape{.num_layers = 1,
                             .hidden_size = 8,
                             .ffn_hidden_size = 32,
                             .num_attention_heads = 2,
                             .num_query_groups = 2,
                             .seq_length = 4,
                             .vocab_size = 128};
  const sim::LayerPlacement placement = sim::place_layers({.num_layers = 1});
  for (const int instances : {1, 2, 4}) {
    const sim::Layout layout = sim::make_layout(
        {.world_size = 4, .num_distributed_optimizer_instances = instances}, sim::RuleBook::megatron);
    EXPECT_EQ(check_memory(shape, layout, placement, {}).owners, 4 / instances);
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

// Megatron leaves out the weight of a tied output layer only on the first stage. Elsewhere the layers that
// predict further tokens have an embedding beside it.
TEST(ModelMemory, PredictionsHaveAnEmbeddingBesideATiedOutputLayer) {
  sim::GptConfig shape{.num_layers = 2,
                       .hidden_size = 8,
                       .ffn_hidden_size = 32,
                       .num_attention_heads = 2,
                       .num_query_groups = 2,
                       .vocab_size = 256};
  const auto matrices = [&](bool is_first) {
    std::int64_t elements = 0;
    const auto held =
        held_parameters(shape, {.layers = {}, .is_first = is_first, .is_last = true}, {.tp = 2});
    for (const HeldParameter& parameter : held)
      if (parameter.elements == 256 * 8 / 2) ++elements;
    return elements;
  };
  EXPECT_EQ(matrices(true), 1);
  EXPECT_EQ(matrices(false), 1);
  shape.mtp_num_layers = 1;
  EXPECT_EQ(matrices(true), 1);
  EXPECT_EQ(matrices(false), 2);
  shape.untie_embeddings_and_output_weights = true;
  EXPECT_EQ(matrices(true), 2);
  EXPECT_EQ(matrices(false), 2);
}

// A layout may have a last stage that only predicts: the norm behind the layers is not there.
TEST(ModelMemory, PredictionsLeaveTheFinalNormWithTheLastLayer) {
  sim::GptConfig shape{.num_layers = 2,
                       .hidden_size = 8,
                       .ffn_hidden_size = 32,
                       .num_attention_heads = 2,
                       .num_query_groups = 2,
                       .vocab_size = 256,
                       .normalization = sim::Norm::rms_norm,
                       .bias = false,
                       .untie_embeddings_and_output_weights = true};
  const auto norms = [&](const Stage& stage) {
    return std::ranges::count(held_parameters(shape, stage, {}), 8, &HeldParameter::elements);
  };
  const Stage layers{.layers = {{.count = 2}}}, rest{.layers = {{.offset = 2}}, .is_last = true};
  EXPECT_EQ(norms(layers), 2 * 2);
  EXPECT_EQ(norms(rest), 1);
  shape.mtp_num_layers = 1;
  EXPECT_EQ(norms(layers), 2 * 2 + 1);
  EXPECT_EQ(norms(rest), 3 + 2) << "those of the prediction and of its layer";
}

// Of ranks 24 and 32 + 4: whole on each rank, or half of each.
TEST(ModelMemory, LayersWithoutTransformerEngineCutTheDownProjections) {
  const sim::GptConfig shape{.num_layers = 1,
                             .hidden_size = 8,
                             .ffn_hidden_size = 32,
                             .num_attention_heads = 2,
                             .num_query_groups = 2,
                             .latent = sim::LatentSizes{.q_lora_rank = 24,
                                                        .kv_lora_rank = 32,
                                                        .qk_head_dim = 4,
                                                        .qk_pos_emb_head_dim = 4,
                                                        .v_head_dim = 4}};
  const auto elements = [&](bool cuts) {
    std::int64_t sum = 0;
    for (const HeldParameter& held :
         held_parameters(shape, {.layers = {{.count = 1}}}, {.tp = 2, .cuts_latents = cuts}))
      sum += held.elements;
    return sum;
  };
  EXPECT_EQ(elements(false) - elements(true), (24 + 32 + 4) * 8 / 2);
}

TEST(ModelMemory, TheVocabularyIsPaddedToItsDivisor) {
  sim::GptConfig shape{.hidden_size = 1, .ffn_hidden_size = 1, .num_attention_heads = 1, .vocab_size = 100};
  const auto words = [&](int tp) {
    return held_parameters(shape, {.is_first = true}, {.tp = tp}).front().elements;
  };
  EXPECT_EQ(words(2), 128);
  shape.make_vocab_size_divisible_by = 30;
  EXPECT_EQ(words(2), 60);
  EXPECT_EQ(padded_vocabulary(50257, 8, 128), 51200);
  EXPECT_EQ(padded_vocabulary(50257, 1, 1), 50257);
  EXPECT_EQ(padded_vocabulary(1, 8, 0), std::nullopt);
}

}  // namespace
