// Proves in the field that a GPT with layers of experts trains on every layout as on one rank: losses and the
// norms of all gradients of three steps are the same, with auxiliary losses, expert biases and shared
// experts.

#include <gtest/gtest.h>
#include <map>
#include <numeric>
#include <rapidcheck/gtest.h>

#include "sim/cpu/cpu_device.h"
#include "sim/model/gpt_training.h"
#include "sim/pipeline/schedules.h"
#include "sim/world/simulate.h"
#include "tests/support/tensor_values.h"

namespace {

using namespace sim;

constexpr int kSamples = 4;  // of a step

struct Grid {
  int tp = 1, pp = 1, dp = 1, ep = 1, etp = 1;
  int dispatcher = 0;
  bool distributed = true, recompute = false;
};

Grid drawn_grid() {
  Grid grid;
  grid.tp = *rc::gen::element(1, 2);
  grid.pp = *rc::gen::element(1, 2);
  grid.dp = *rc::gen::element(1, 2, 4);
  grid.etp = *rc::gen::element(1, 2);
  grid.ep = *rc::gen::element(1, 2, 4);
  RC_PRE(grid.tp * grid.dp % (grid.etp * grid.ep) == 0);
  grid.dispatcher = *rc::gen::inRange(0, 3);
  grid.distributed = *rc::gen::arbitrary<bool>();
  grid.recompute = *rc::gen::arbitrary<bool>();
  return grid;
}

/// What the model of a trial has, besides its layers of experts.
struct Kind {
  bool sigmoid = false, shared = false, per_token = false, every_second_layer = false;
  int balance = 0;  // none, aux_loss, seq_aux_loss, z-loss
};

Kind drawn_kind() {
  Kind kind;
  kind.sigmoid = *rc::gen::arbitrary<bool>();
  kind.shared = *rc::gen::arbitrary<bool>();
  kind.per_token = *rc::gen::arbitrary<bool>();
  kind.every_second_layer = *rc::gen::arbitrary<bool>();
  kind.balance = *rc::gen::inRange(0, 4);
  return kind;
}

GptExperts experts_of(const Grid& grid, const Kind& kind) {
  GptExperts experts{
      .num_experts = 4,
      .moe_ffn_hidden_size = 4,
      .routing = {.topk = 2,
                  .score_function = kind.sigmoid ? ScoreFunction::sigmoid : ScoreFunction::softmax},
      .expert_bias = kind.sigmoid,
      .dispatcher = static_cast<TokenDispatcherType>(grid.dispatcher),
      .shared_expert_intermediate_size = kind.shared ? 2 : 0,
      .shared_expert_gate = true};
  if (kind.every_second_layer) experts.moe_layer_freq = {.entries = {0, 1}};
  if (kind.balance == 1) experts.aux_losses = {{AuxLossKind::aux_loss, {1, 8}}};
  if (kind.balance == 2) experts.aux_losses = {{AuxLossKind::seq_aux_loss, {1, 8}}};
  if (kind.balance == 3) experts.z_loss_coefficient = {1, 8};
  return experts;
}

GptTrainingConfig config_of(const Grid& grid, const Kind& kind) {
  return {.model = {.dtype = DType::field,
                    .num_layers = 2,
                    .hidden_size = 4,
                    .ffn_hidden_size = 4,
                    .num_attention_heads = 2,
                    .num_query_groups = 2,
                    .kv_channels = 2,
                    .seq_length = 4,
                    .vocab_size = 5,
                    .padded_vocab_size = 6,
                    .gated = true,
                    .bias = false,
                    .sequence_parallel = grid.tp > 1,
                    .recompute = grid.recompute,
                    .experts = experts_of(grid, kind)},
          .placement = place_layers({.num_layers = 2, .pipeline_model_parallel_size = grid.pp}),
          .pipeline = {.pipeline_model_parallel_size = grid.pp, .num_microbatches = kSamples / grid.dp},
          .schedule = grid.pp > 1 ? one_forward_one_backward : no_pipelining,
          .data_parallel = {.bucket_size = 40,
                            .distributed_optimizer = grid.distributed,
                            .per_token_loss = kind.per_token},
          .optimizer = {.weight_decay = {1, 4}, .clip_grad = {1, 2}, .log_grad_norm = true}};
}

Sample sample_of(std::int64_t number) {
  const auto id = [&](std::int64_t i) { return static_cast<std::int32_t>((number * 7 + i * i) % 5); };
  return {{id(0), id(1), id(2), id(3)}, {id(1), id(2), id(3), id(4)}};
}

/// The losses and norms of three steps.
std::map<std::string, std::vector<Field>> trained(const Grid& grid, const Kind& kind, std::uint64_t seed) {
  CpuDevice device(seed);
  device.set_field_seed(seed, FieldFunctions::keyed);
  const WorldSpec spec{.layout = make_layout({.world_size = grid.tp * grid.pp * grid.dp,
                                              .tensor_model_parallel_size = grid.tp,
                                              .pipeline_model_parallel_size = grid.pp,
                                              .expert_model_parallel_size = grid.ep,
                                              .expert_tensor_parallel_size = grid.etp},
                                             RuleBook::megatron),
                       .seed = seed};
  const RunReport report = simulate(spec, device, [&](Rank& rank) {
    GptTraining training(rank, config_of(grid, kind), sample_of);
    for (std::int64_t step = 0; step < 3; ++step) {
      const GptTraining::Result result = training.step(step, {1, 8});
      if (!result.loss.is_none()) rank.publish("loss " + std::to_string(step), result.loss);
      rank.publish("norm " + std::to_string(step), training.optimizer().grad_norm_squared());
    }
    training.optimizer().finish_param_gather();
  });
  if (!report.ok()) RC_FAIL(report.failure());
  std::map<std::string, std::vector<Field>> all;
  for (const RankReport& rank : report.ranks) {
    for (const Published& tensor : rank.published) {
      const auto [known, is_new] = all.emplace(tensor.name, test::values<Field>(&tensor));
      RC_ASSERT(known->second == test::values<Field>(&tensor));  // on all ranks the same
    }
  }
  return all;
}

TEST(GptWithExperts, RefusesAListForOtherLayers) {
  CpuDevice device;
  const RunReport report =
      simulate({.layout = make_layout({.world_size = 1}, RuleBook::megatron)}, device, [](Rank& rank) {
        GptTrainingConfig config = config_of({}, {});
        config.model.experts.moe_layer_freq = {.entries = {1}};
        GptTraining(rank, config, sample_of);
      });
  EXPECT_EQ(report.findings.front().code, "moe_freq_length") << report.failure();
}

/// Of two sequences of one token each, a rank of a tensor-parallel group of two has one whole sequence.
TEST(GptWithExperts, RefusesSequencesThatRanksDoNotShare) {
  CpuDevice device;
  const WorldSpec spec{
      .layout = make_layout({.world_size = 2, .tensor_model_parallel_size = 2}, RuleBook::megatron)};
  for (const std::int64_t length : {1, 3}) {
    const RunReport report = simulate(spec, device, [&](Rank& rank) {
      GptTrainingConfig config = config_of({.tp = 2}, {});
      config.model.seq_length = length;
      config.model.micro_batch_size = 2;
      GptTraining(rank, config, [&](std::int64_t) {
        return Sample{std::vector<std::int32_t>(static_cast<std::size_t>(length)),
                      std::vector<std::int32_t>(static_cast<std::size_t>(length))};
      }).step(0, {1, 8});
    });
    ASSERT_FALSE(report.ok());
    EXPECT_EQ(report.findings.front().code, "sequence_split") << report.failure();
  }
}

/// A recomputed layer runs forward twice, and counts the tokens of a microbatch once: for the expert bias,
/// and for the mean over microbatches that global_aux_loss takes.
TEST(GptWithExperts, CountsTokensOnceWhereLayersAreRecomputed) {
  for (const bool recompute : {false, true}) {
    CpuDevice device;
    const RunReport report = simulate(world_of(1), device, [&](Rank& rank) {
      GptTrainingConfig config = config_of({.recompute = recompute}, {.sigmoid = true});
      config.model.experts.aux_losses = {{AuxLossKind::global_aux_loss, {1, 8}}};
      GptTraining training(rank, config, sample_of);
      training.forward_backward(0);
      for (TopKRouter* router : training.chunks().front().routers()) {
        const auto tokens = test::values<std::int32_t>(router->local_tokens_per_expert());
        const std::int64_t choices = kSamples * config.model.tokens() * config.model.experts.routing.topk;
        EXPECT_EQ(std::accumulate(tokens.begin(), tokens.end(), std::int64_t{0}), choices);
        EXPECT_EQ(router->global_tokens_per_expert().microbatches, kSamples);
      }
    });
    EXPECT_TRUE(report.ok()) << report.failure();
  }
}

RC_GTEST_PROP(GptWithExperts, TrainsAsOnOneRank, ()) {
  const Grid grid = drawn_grid();
  const Kind kind = drawn_kind();
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  Grid one;
  one.distributed = false;
  RC_ASSERT(trained(grid, kind, seed) == trained(one, kind, seed));
}

}  // namespace
