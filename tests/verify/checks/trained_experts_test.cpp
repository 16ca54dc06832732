// Proves which experts replay trains: those of the scenario in reduced sizes, on its grid, with everything
// that is left out named; and that the case of the training is the one with experts.

#include "verify/checks/trained_experts.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "tests/support/request.h"
#include "verify/cases/gpt_plan.h"
#include "verify/checks/trained_model.h"

namespace {

using namespace verify;
using Options = std::map<std::string, std::string>;

ScenarioRequest requested(const Options& options) {
  return test::scenario_request({options.begin(), options.end()});
}

Options with_experts() {
  return {{"world-size", "16"},
          {"tensor-model-parallel-size", "2"},
          {"pipeline-model-parallel-size", "2"},
          {"expert-model-parallel-size", "4"},
          {"expert-tensor-parallel-size", "1"},
          {"sequence-parallel", "true"},
          {"disable-bias-linear", "true"},
          {"num-experts", "64"},
          {"moe-router-topk", "6"},
          {"moe-router-score-function", "sigmoid"},
          {"moe-router-enable-expert-bias", "true"},
          {"moe-router-topk-scaling-factor", "2.5"},
          {"moe-router-load-balancing-type", "seq_aux_loss"},
          {"moe-aux-loss-coeff", "1"},
          {"moe-shared-expert-intermediate-size", "8"},
          {"moe-token-dispatcher-type", "alltoall"},
          {"moe-layer-freq", "[0]*2+[1]*2"},
          {"num-layers", "4"}};
}

TEST(TrainedExperts, AreThoseOfTheScenario) {
  const ScenarioRequest request = requested(with_experts());
  const TrainedModel model = trained_model(request);
  EXPECT_STREQ(case_of_training(model.setting), "moe_training");
  EXPECT_EQ(model.world, "tp 2, pp 2, dp 4; ep 4, etp 1, experts 8 for 64, top 4 for 6");
  EXPECT_TRUE(model.left_out.empty());
  const sim::GptExperts experts = GptPlan{model.setting}.model().experts;
  EXPECT_EQ(experts.num_experts, 8);
  EXPECT_EQ(experts.routing.topk, 4);
  EXPECT_EQ(experts.routing.score_function, sim::ScoreFunction::sigmoid);
  EXPECT_EQ(experts.routing.scaling_factor.numerator, 5);
  EXPECT_EQ(experts.routing.scaling_factor.denominator, 2);
  EXPECT_TRUE(experts.expert_bias);
  ASSERT_EQ(experts.aux_losses.size(), 1);
  EXPECT_EQ(experts.aux_losses.front().kind, sim::AuxLossKind::seq_aux_loss);
  EXPECT_EQ(experts.dispatcher, sim::TokenDispatcherType::alltoall);
  EXPECT_GT(experts.shared_expert_intermediate_size, 0);
  EXPECT_FALSE(experts.shared_expert_gate);
  EXPECT_EQ(experts.moe_layer_freq, (sim::LayerPattern{.entries = {0, 1}}));
}

TEST(TrainedExperts, AnExpertGridHasExpertsWhoseNumberIsNotGiven) {
  const TrainedModel model =
      trained_model(requested({{"world-size", "8"}, {"expert-model-parallel-size", "4"}}));
  EXPECT_EQ(model.world, "tp 1, pp 1, dp 8; ep 4, etp 1, experts 8, top 2");
}

TEST(TrainedExperts, ADenseModelHasNone) {
  const ScenarioRequest request = requested({{"world-size", "8"}});
  const TrainedModel model = trained_model(request);
  EXPECT_STREQ(case_of_training(model.setting), "gpt_training");
  EXPECT_EQ(model.world, "tp 1, pp 1, dp 8");
  EXPECT_TRUE(left_out_of_training(request, model.setting).empty());
}

TEST(TrainedExperts, AreChosenInGroupsAndByTheScoresOfTheScenario) {
  Options options = with_experts();
  options["moe-router-num-groups"] = "16";
  options["moe-router-group-topk"] = "6";
  options["moe-router-score-function"] = "sqrtsoftplus";
  const TrainedModel model = trained_model(requested(options));
  EXPECT_EQ(model.world, "tp 2, pp 2, dp 4; ep 4, etp 1, experts 8 for 64, top 3 for 6, groups 8 for 16");
  EXPECT_TRUE(model.left_out.empty());
  const sim::TopKRoutingConfig routing = GptPlan{model.setting}.model().experts.routing;
  EXPECT_EQ(routing.num_groups, 8);
  EXPECT_EQ(routing.group_topk, 3);
  EXPECT_EQ(routing.topk, 3);
  EXPECT_EQ(routing.score_function, sim::ScoreFunction::sqrtsoftplus);
}

TEST(TrainedExperts, HaveTheCapacityOfTheScenario) {
  Options options = with_experts();
  options["moe-expert-capacity-factor"] = "1.25";
  options["moe-token-drop-policy"] = "position";
  const TrainedModel model = trained_model(requested(options));
  EXPECT_EQ(model.world, "tp 2, pp 2, dp 4; ep 4, etp 1, experts 8 for 64, top 4 for 6, capacity 1.25");
  EXPECT_TRUE(model.left_out.empty());
  const auto dropping = GptPlan{model.setting}.model().experts.token_dropping;
  ASSERT_TRUE(dropping.has_value());
  EXPECT_EQ(dropping->capacity_factor, 1.25);
  EXPECT_EQ(dropping->drop_policy, sim::DropPolicy::position);
  EXPECT_FALSE(dropping->pad_to_capacity);
}

/// Experts that are padded cannot take more tokens than there are, so that the factor is reduced with them.
TEST(TrainedExperts, KeepAtMostAllTokensOfARank) {
  Options options = with_experts();
  options["moe-expert-capacity-factor"] = "8.0";
  options["moe-pad-expert-input-to-capacity"] = "true";
  const TrainedModel model = trained_model(requested(options));
  EXPECT_EQ(model.world, "tp 2, pp 2, dp 4; ep 4, etp 1, experts 8 for 64, top 4 for 6, capacity 2 for 8");
  const GptPlan plan{model.setting};
  EXPECT_TRUE(plan.experts().pads_to_capacity());
  EXPECT_TRUE(plan.experts().drops_by_probability());
  for (std::int64_t tokens = 1; tokens < 100; ++tokens)
    EXPECT_EQ(plan.experts().capacity(tokens).capacity, tokens);
}

std::vector<std::string> left_out(const Options& options) {
  const ScenarioRequest request = requested(options);
  return left_out_of_training(request, trained_model(request).setting);
}

TEST(TrainedExperts, WhatIsLeftOutIsNamed) {
  Options options = with_experts();
  options["moe-router-num-groups"] = "4";
  options["moe-router-group-topk"] = "2";
  options["moe-router-load-balancing-type"] = "none";
  EXPECT_TRUE(left_out(options).empty());
  const CaseSetting without_groups = trained_model(requested(with_experts())).setting;
  EXPECT_EQ(left_out_of_training(requested(options), without_groups),
            std::vector<std::string>{"the choice of experts in groups"});
  Options of_sinkhorn = with_experts();
  of_sinkhorn["moe-router-load-balancing-type"] = "sinkhorn";
  EXPECT_EQ(left_out(of_sinkhorn),
            std::vector<std::string>{"the choice of experts by Sinkhorn, in whose place is a plain top-k"});
  Options of_quantiles = with_experts();
  of_quantiles["moe-router-load-balancing-type"] = "quantile_balancing";
  EXPECT_EQ(left_out(of_quantiles),
            std::vector<std::string>{"the bias of experts by quantiles, in whose place is a plain top-k"});
}

/// Experts lie on the replicas of a stage, so that a training that takes too long is folded by stages first.
TEST(TrainedExperts, StagesAreFoldedSoThatTheExpertGridIsKept) {
  const TrainedModel model = trained_model(requested({{"world-size", "256"},
                                                      {"tensor-model-parallel-size", "2"},
                                                      {"pipeline-model-parallel-size", "8"},
                                                      {"virtual-pipeline-model-parallel-size", "4"},
                                                      {"expert-model-parallel-size", "32"},
                                                      {"expert-tensor-parallel-size", "1"},
                                                      {"sequence-parallel", "true"},
                                                      {"disable-bias-linear", "true"},
                                                      {"num-experts", "128"},
                                                      {"moe-router-topk", "8"}}));
  EXPECT_EQ(model.world, "tp 2, pp 2 for 8, dp 16; ep 32, etp 1, experts 64 for 128, top 8");
  EXPECT_EQ(model.setting["steps"], kTrainIters == 2 ? 2 : 4);
}

TEST(TrainedExperts, OptimizerInstancesAreNamedForDenseModelsToo) {
  const Options dense = {{"world-size", "8"}, {"num-distributed-optimizer-instances", "2"}};
  EXPECT_EQ(left_out(dense), std::vector<std::string>{"optimizer instances"});
}

RC_GTEST_PROP(TrainedExperts, AWorldThatIsFoldedKeepsADividingGrid, ()) {
  const int ep = 1 << *rc::gen::inRange(0, 8), etp = 1 << *rc::gen::inRange(0, 3);
  const int dp = 1 << *rc::gen::inRange(0, 4), pp = 1 << *rc::gen::inRange(0, 4);
  const std::int64_t world = std::int64_t{ep} * etp * dp * pp;
  const Options options = {{"world-size", std::to_string(world)},
                           {"pipeline-model-parallel-size", std::to_string(pp)},
                           {"expert-model-parallel-size", std::to_string(ep)},
                           {"expert-tensor-parallel-size", std::to_string(etp)},
                           {"disable-bias-linear", "true"},
                           {"num-experts", std::to_string(2 * ep)}};
  const TrainedModel model = trained_model(requested(options));
  const GptPlan plan{model.setting};
  RC_ASSERT(plan.s.group_size <= kMostTrainingRanks);
  const GptExpertsPlan experts = plan.experts();
  RC_ASSERT(experts.ep() * experts.etp() * experts.edp() * plan.pp() == plan.s.group_size);
  RC_ASSERT(experts.number() % experts.ep() == 0);
  RC_ASSERT(ep % experts.ep() == 0);
  RC_ASSERT(experts.topk() <= experts.number());
}

}  // namespace
