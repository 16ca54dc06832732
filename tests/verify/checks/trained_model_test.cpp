// Proves which model replay trains: the scenario's own if it is small and takes bytes, and otherwise one
// of its kind.

#include "verify/checks/trained_model.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "tests/support/request.h"
#include "tests/support/run.h"
#include "verify/cases/gpt_plan.h"

namespace {

using namespace verify;
using Options = std::map<std::string, std::string>;

Options small_model() {
  return {{"world-size", "8"},
          {"tensor-model-parallel-size", "2"},
          {"pipeline-model-parallel-size", "2"},
          {"num-layers", "4"},
          {"hidden-size", "16"},
          {"num-attention-heads", "4"},
          {"num-query-groups", "2"},
          {"vocab-size", "256"},
          {"seq-length", "16"},
          {"micro-batch-size", "2"},
          {"global-batch-size", "16"}};
}

TrainedModel trained(const Options& options) {
  return trained_model(test::scenario_request({options.begin(), options.end()}));
}

TEST(TrainedModel, ASmallModelOfBytesIsTrainedWhole) {
  const TrainedModel model = trained(small_model());
  EXPECT_TRUE(model.is_whole);
  EXPECT_EQ(model.world, "tp 2, pp 2, dp 2");
  EXPECT_EQ(model.model, "4 layers, hidden 16, ffn 64, 4 heads of 4 channels, sequences of 16 bytes");
  const GptPlan plan{model.setting};
  const sim::GptConfig config = plan.model();
  EXPECT_EQ(config.num_layers, 4);
  EXPECT_EQ(config.hidden_size, 16);
  EXPECT_EQ(config.ffn_hidden_size, 64);
  EXPECT_EQ(config.num_attention_heads, 4);
  EXPECT_EQ(config.num_query_groups, 2);
  EXPECT_EQ(config.kv_channels, 4);
  EXPECT_EQ(config.seq_length, 16);
  EXPECT_EQ(config.micro_batch_size, 2);
  EXPECT_EQ(plan.microbatches(), 4);
  EXPECT_EQ(plan.dp(), 2);
}

TEST(TrainedModel, HeadsOfASizeOfTheirOwnAreTrained) {
  Options options = small_model();
  options["kv-channels"] = "6";
  options["disable-bias-linear"] = options["add-qkv-bias"] = "true";
  const TrainedModel model = trained(options);
  EXPECT_TRUE(model.is_whole);
  EXPECT_EQ(model.model, "4 layers, hidden 16, ffn 64, 4 heads of 6 channels, sequences of 16 bytes");
  const sim::GptConfig config = GptPlan{model.setting}.model();
  EXPECT_EQ(config.kv_channels, 6);
  EXPECT_FALSE(config.bias);
  EXPECT_TRUE(config.add_qkv_bias);
  options["vocab-size"] = "512";
  EXPECT_TRUE(GptPlan{trained(options).setting}.model().add_qkv_bias) << "of the reduced model, too";
}

TEST(TrainedModel, NormsOfQueriesAndKeysAreTrained) {
  Options options = small_model();
  EXPECT_FALSE(GptPlan{trained(options).setting}.model().qk_layernorm);
  options["qk-layernorm"] = "true";
  const TrainedModel model = trained(options);
  EXPECT_TRUE(model.is_whole);
  EXPECT_TRUE(GptPlan{model.setting}.model().qk_layernorm);
  options["vocab-size"] = "512";
  EXPECT_TRUE(GptPlan{trained(options).setting}.model().qk_layernorm) << "of the reduced model, too";
}

TEST(TrainedModel, LayersWithAWindowAreTrained) {
  const auto windows = [](const Options& options) {
    const sim::GptConfig config = GptPlan{trained(options).setting}.model();
    std::string all;
    for (std::int64_t layer = 0; layer < config.num_layers; ++layer)
      all += std::to_string(config.window_of(layer)) + " ";
    return all;
  };
  Options options = small_model();
  EXPECT_EQ(windows(options), "-1 -1 -1 -1 ");
  options["window-size"] = "5,0";
  EXPECT_EQ(windows(options), "5 5 5 5 ");
  options["window-attn-skip-freq"] = "3";
  EXPECT_EQ(windows(options), "5 5 -1 5 ");
  options["window-attn-skip-freq"] = "[1,1,0,0]";
  EXPECT_FALSE(trained(options).is_whole) << "a list is none of the patterns that are trained";
  EXPECT_EQ(windows(options), "1 -1 ") << "of the reduced model, whose sequences are short";
}

TEST(TrainedModel, AWindowIsTrainedWithGatheredKeys) {
  Options options = small_model();
  options["world-size"] = "16";
  options["context-parallel-size"] = "2";
  options["window-size"] = "5,0";
  options["cp-comm-type"] = "all_gather";
  EXPECT_EQ(GptPlan{trained(options).setting}.model().window.size, 1);
}

TEST(TrainedModel, AnyOtherIsReduced) {
  const std::vector<Options> changes = {
      {{"vocab-size", "512"}},
      {{"num-layers", "5"}},
      {{"num-layers", "6"}, {"decoder-first-pipeline-num-layers", "2"}},
      {{"num-attention-heads", "16"}, {"num-query-groups", "16"}},
      {{"num-query-groups", "1"}},
      {{"seq-length", "65536"}},
      {{"hidden-size", "1024"}},
      {{"world-size", "16"}, {"context-parallel-size", "2"}},
      {{"mtp-num-layers", "1"}, {"position-embedding-type", "rope"}},
      {{"num-distributed-optimizer-instances", "2"}},
      {{"virtual-pipeline-model-parallel-size", "1"}},
      {{"seq-length", "1000"}, {"hidden-size", "4"}, {"num-attention-heads", "2"}},
      {{"world-size", "512"}, {"global-batch-size", "1024"}}};
  for (const Options& change : changes) {
    Options options = small_model();
    for (const auto& [name, value] : change) options[name] = value;
    if (change.contains("num-layers") && change.size() == 1)
      options["account-for-loss-in-pipeline-split"] = "true";
    const TrainedModel model = trained(options);
    EXPECT_FALSE(model.is_whole) << change.begin()->first;
    EXPECT_EQ(GptPlan{model.setting}.model().hidden_size, 4) << change.begin()->first;
  }
}

/// A request that replay refuses is made here by hand.
TEST(TrainedModel, WhatDoesNotDivideIsReduced) {
  const Options small = small_model();
  ScenarioRequest wide = test::scenario_request({small.begin(), small.end()});
  wide.model.config.ffn_hidden_size = 3;
  EXPECT_FALSE(trained_model(wide).is_whole);
  ScenarioRequest odd = test::scenario_request({small.begin(), small.end()});
  odd.model.config.seq_length = 15;
  odd.model.config.sequence_parallel = true;
  EXPECT_FALSE(trained_model(odd).is_whole);
}

TEST(TrainedModel, DocumentsEndWithCarriageReturnsToo) {
  const test::TemporaryFile plain("plain.txt", "one two\n\nthree four\n\nfive six seven\n");
  const test::TemporaryFile dos("dos.txt", "one two\r\n\r\nthree four\r\n\r\nfive six seven\r\n");
  for (const auto* file : {&plain, &dos}) {
    Options options = small_model();
    options["text"] = file->path();
    options["seq-length"] = "20";
    options["eod-mask-loss"] = "true";
    const TrainedModel model = trained(options);
    bool is_masked = false;
    for (std::int64_t number = 0; number < 20; ++number) {
      const sim::Sample sample = model.setting.text->sample(number);
      is_masked |= std::count(sample.labels.begin(), sample.labels.end(), sim::kIgnoredLabel) > 0;
    }
    EXPECT_TRUE(is_masked) << file->path();
  }
}

TEST(TrainedModel, ReplicasAreFoldedFirst) {
  Options options = small_model();
  options["world-size"] = "1024";
  options["global-batch-size"] = "1024";
  EXPECT_EQ(trained(options).world, "tp 2, pp 2, dp 64 for 256");
  options["tensor-model-parallel-size"] = "512";
  options["pipeline-model-parallel-size"] = "2";
  options["num-query-groups"] = "4";
  options["num-attention-heads"] = "512";
  options["hidden-size"] = "512";
  EXPECT_EQ(trained(options).world, "tp 256 for 512, pp 1 for 2, dp 1");
}

/// In a world that is not folded, every rank has the tp and pp coordinates that it has in the layout.
RC_GTEST_PROP(TrainedModel, RanksStandWhereTheLayoutHasThem, ()) {
  std::vector<std::string> axes = {"tp", "cp", "ep", "dp", "pp"};
  const auto keys = *rc::gen::container<std::vector<int>>(5, rc::gen::arbitrary<int>());
  std::vector<std::size_t> places = {0, 1, 2, 3, 4};
  std::stable_sort(places.begin(), places.end(), [&](auto a, auto b) { return keys[a] < keys[b]; });
  std::string order;
  for (const std::size_t place : places) order += (order.empty() ? "" : "-") + axes[place];
  const int tp = *rc::gen::inRange(1, 4), pp = *rc::gen::inRange(1, 4), dp = *rc::gen::inRange(1, 4);
  Options options = {{"order", order},
                     {"world-size", std::to_string(tp * pp * dp)},
                     {"tensor-model-parallel-size", std::to_string(tp)},
                     {"pipeline-model-parallel-size", std::to_string(pp)}};
  const ScenarioRequest request = test::scenario_request({options.begin(), options.end()});
  const sim::Layout& layout = request.layout;
  const TrainedModel model = trained_model(request);
  const auto stand = GptPlan{model.setting}.places();
  RC_ASSERT(std::ssize(stand) == layout.world_size);
  for (int rank = 0; rank < layout.world_size; ++rank) {
    const auto coordinates = layout.dense.coordinates_of(rank);
    RC_ASSERT(stand[static_cast<std::size_t>(rank)].tp == coordinates[sim::Axis::tp]);
    RC_ASSERT(stand[static_cast<std::size_t>(rank)].pp == coordinates[sim::Axis::pp]);
  }
}

TEST(TrainedModel, MasksAndLossesAreTheScenariosOwn) {
  Options options = small_model();
  const auto tokens_with_loss = [](const TrainedModel& model) {
    std::int64_t tokens = 0;
    for (std::int64_t number = 0; number < 100; ++number) {
      for (const std::int32_t label : model.setting.text->sample(number).labels)
        tokens += label != sim::kIgnoredLabel ? 1 : 0;
    }
    return tokens;
  };
  EXPECT_EQ(tokens_with_loss(trained(options)), 100 * 16);
  options["eod-mask-loss"] = "true";
  options["calculate-per-token-loss"] = "true";
  options["recompute-granularity"] = "full";
  options["recompute-method"] = "uniform";
  options["recompute-num-layers"] = "1";
  const TrainedModel model = trained(options);
  EXPECT_LT(tokens_with_loss(model), 100 * 16);
  EXPECT_TRUE(GptPlan{model.setting}.per_token());
  EXPECT_TRUE(GptPlan{model.setting}.model().recompute);
}

// A whole training has the scenario's own groups of microbatches, and a reduced one names them.
TEST(TrainedModel, GroupsOfMicrobatchesAreTheScenarios) {
  Options options = small_model();
  options["virtual-pipeline-model-parallel-size"] = "2";
  EXPECT_EQ(GptPlan{trained(options).setting}.microbatch_group(), 2);
  EXPECT_EQ(GptPlan{trained(options).setting}.pipeline().microbatch_group_size_per_virtual_pipeline_stage, 2);
  options["microbatch-group-size-per-virtual-pipeline-stage"] = "4";
  const TrainedModel whole = trained(options);
  EXPECT_TRUE(whole.is_whole);
  EXPECT_EQ(GptPlan{whole.setting}.microbatch_group(), 4);
  EXPECT_EQ(GptPlan{whole.setting}.pipeline_order().group, 4);
  options["vocab-size"] = "512";
  const TrainedModel reduced = trained(options);
  EXPECT_EQ(GptPlan{reduced.setting}.microbatch_group(), 2);
  EXPECT_EQ(reduced.left_out,
            std::vector<std::string>{"groups of 4 microbatches, in whose place are groups of 2"});
}

// An interleaved schedule has a layer for each chunk, and pp microbatches: its work grows with the square of
// pp.
TEST(TrainedModel, ALongInterleavedTrainingIsBoundedAndSaysSo) {
  const auto interleaved = [](const char* world, const char* pp, const char* chunks) {
    return Options{{"world-size", world},
                   {"pipeline-model-parallel-size", pp},
                   {"virtual-pipeline-model-parallel-size", chunks}};
  };
  const auto passes = [](const TrainedModel& model) {
    const GptPlan plan{model.setting};
    return plan.num_layers() * plan.global_batch() * model.setting["steps"];
  };
  const TrainedModel small = trained(interleaved("8", "4", "2"));
  EXPECT_EQ(small.setting["steps"], kTrainIters);
  EXPECT_EQ(small.bound, "");

  const TrainedModel fewer = trained(interleaved("32", "16", "4"));
  EXPECT_EQ(fewer.world, "tp 1, pp 16, dp 2");
#ifndef SHARDPROOF_SANITIZED
  EXPECT_EQ(fewer.setting["steps"], 8);
  EXPECT_EQ(fewer.bound, " (not 20: a step has 64 layers and 32 sequences)");
#endif
  EXPECT_LE(passes(fewer), kMostLayerPasses);

  const TrainedModel folded = trained(interleaved("256", "64", "12"));
  EXPECT_LT(folded.setting["steps"], 20);
  EXPECT_EQ(folded.world, "tp 1, pp 16 for 64, dp 1 for 4");
  EXPECT_LE(passes(folded), kMostLayerPasses);

  Options asked = interleaved("32", "16", "4");
  asked["train-iters"] = "30";
  EXPECT_EQ(trained(asked).setting["steps"], 30) << "what the user asks for is trained";
}

}  // namespace
