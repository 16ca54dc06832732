// Proves that a step at full size calls what closed forms say, in drawn worlds and models, and what it calls
// on a device with elements, that a folded world has the ledger of the whole one, and that a ledger which
// differs from the closed forms is told.

#include "verify/full_size/full_size_step.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "sim/cpu/cpu_device.h"
#include "sim/layout/size_rules.h"
#include "sim/shapes/shapes_device.h"
#include "tests/support/full_size_options.h"
#include "tests/support/refusal_code.h"
#include "tests/support/request.h"
#include "verify/full_size/balanced_experts.h"
#include "verify/full_size/full_size_training.h"
#include "verify/full_size/microbatch_fold.h"
#include "verify/full_size/replica_fold.h"
#include "verify/full_size/step_totals.h"
#include "verify/full_size/step_work.h"
#include "verify/memory/scenario_memory.h"

namespace {

using namespace verify;
using test::Draws;
using test::text_of;

#ifdef SHARDPROOF_SANITIZED
constexpr std::uint64_t kDraws = 4;
#else
constexpr std::uint64_t kDraws = 40;
#endif

/// Draws a world of 3 to 5 replicas, and a model for it.
NamedValues drawn_options(std::uint64_t seed, bool has_experts = false) {
  Draws draw(seed, has_experts ? "full size step with experts" : "full size step");
  test::DrawnWorld world = test::drawn_world(draw, 2);
  NamedValues& options = world.options;
  const auto say = [&](const char* name, const char* value) { options.emplace_back(name, value); };
  const auto give = [&](const char* name, int value) { options.emplace_back(name, std::to_string(value)); };
  if (draw(2) == 0) {
    say("overlap-grad-reduce", "true");
    if (draw(2) == 0) give("ddp-bucket-size", 1 + draw(3000));
    if (draw(2) == 0) say("overlap-param-gather", "true");
  }
  if (has_experts) test::add_drawn_experts(world.tp, world.ranks_of_stage, draw, options);
  return std::move(options);
}

/// Draws a world with experts whose replicas can be folded: each block of them is a node.
NamedValues foldable_options(std::uint64_t seed) {
  Draws draw(seed, "foldable step with experts");
  const int tp = 1 + draw(2), block = 1 + draw(2), blocks = 3 + draw(2), pp = 1 + draw(2);
  const int etp = draw.divisor(tp * block), ep = tp * block / etp;
  NamedValues options = {{"hidden-size", "8"}, {"num-attention-heads", "2"}, {"vocab-size", "20"}};
  const auto give = [&](const char* name, int value) { options.emplace_back(name, std::to_string(value)); };
  give("world-size", tp * block * blocks * pp);
  give("tensor-model-parallel-size", tp);
  give("pipeline-model-parallel-size", pp);
  give("gpus-per-node", draw(2) == 0 ? tp * block : 64);
  give("num-layers", 2 * pp);
  give("seq-length", 4 * tp);
  give("global-batch-size", block * blocks * (1 + draw(3)));
  give("ffn-hidden-size", 4 * tp);
  test::add_drawn_experts(tp, 1, draw, options);
  for (auto& [name, value] : options) {
    if (name == "expert-model-parallel-size") value = std::to_string(ep);
    if (name == "expert-tensor-parallel-size") value = std::to_string(etp);
    if (name == "num-experts") value = std::to_string(4 * ep);
    if (name == "moe-ffn-hidden-size") value = std::to_string(4 * etp);
  }
  if (std::ranges::find(options, "disable-bias-linear", &NamedValues::value_type::first) == options.end())
    options.emplace_back("disable-bias-linear", "true");
  return options;
}

NamedValues one_world() {
  return {{"world-size", "8"},
          {"tensor-model-parallel-size", "2"},
          {"pipeline-model-parallel-size", "2"},
          {"num-layers", "2"},
          {"hidden-size", "8"},
          {"num-attention-heads", "2"},
          {"seq-length", "4"},
          {"vocab-size", "10"},
          {"global-batch-size", "4"},
          {"untie-embeddings-and-output-weights", "true"}};
}

/// Whether ranks do and hold the same, without what depends on the owner of a part and on microbatches in
/// flight.
bool are_same(std::vector<StageWork> a, std::vector<StageWork> b) {
  for (std::vector<StageWork>* stages : {&a, &b}) {
    for (StageWork& stage : *stages) {
      stage.held.optimizer = 0;
      stage.working_bytes.reset();
    }
  }
  return a == b;
}

/// The ledger of all microbatches is that of a step of few of them, wherever a step has more than two
/// periods.
TEST(FullSizeStep, FoldedMicrobatchesHaveTheLedgerOfAll) {
  int folded_steps = 0;
  for (std::uint64_t seed = 0; seed < kDraws; ++seed) {
    NamedValues options = drawn_options(seed, seed % 2 == 1);
    ScenarioRequest request = test::scenario_request(options);
    const auto batch = std::ranges::find(options, "global-batch-size", &NamedValues::value_type::first);
    batch->second = std::to_string(3 * *request.batch.global_batch_size);
    request = test::scenario_request(options);
    if (microbatches_of_a_period(request) == 0) continue;
    ++folded_steps;
    const StepReport whole = full_size_step(request, {request.layout.dp});
    ASSERT_TRUE(whole.row.holds) << whole.row.detail << text_of(options);
    const StepReport folded = full_size_step(request, {request.layout.dp, true});
    ASSERT_TRUE(folded.row.holds) << folded.row.detail << text_of(options);
    ASSERT_NE(folded.row.detail.find("microbatches"), std::string::npos) << folded.row.detail;
    ASSERT_EQ(folded.ledger, whole.ledger) << text_of(options);
    ASSERT_TRUE(are_same(folded.stages, whole.stages)) << text_of(options);
  }
  EXPECT_GT(folded_steps, static_cast<int>(kDraws / 2));
}

TEST(FullSizeStep, CallsThatAreNotAsManyInEachPeriodAreNotFolded) {
  const ScenarioRequest request = test::scenario_request(one_world());
  const StepReport one = full_size_step(with_microbatches(request, 1), {2});
  const StepReport two = full_size_step(with_microbatches(request, 2), {2});
  const ScenarioRequest all = with_microbatches(request, 4);
  EXPECT_EQ(ledger_of_microbatches(all, one.ledger, two.ledger), full_size_step(all, {2}).ledger);
  std::vector<sim::LedgerRow> wrong = two.ledger;
  for (sim::LedgerRow& row : wrong) {
    if (row.site == "row_parallel_linear.forward") row.elements += 1;
  }
  EXPECT_EQ(test::refusal_code([&] { ledger_of_microbatches(all, one.ledger, wrong); }), "microbatch_fold");
}

TEST(FullSizeStep, AFoldedWorldHasTheLedgerOfTheWholeOne) {
  for (std::uint64_t seed = 0; seed < kDraws; ++seed) {
    const NamedValues options = drawn_options(seed);
    const ScenarioRequest request = test::scenario_request(options);
    ASSERT_EQ(can_run_full_size(request).reason, "") << text_of(options);
    ASSERT_TRUE(can_run_full_size(request).is_asked_for) << text_of(options);
    const StepReport whole = full_size_step(request, {request.layout.dp});
    ASSERT_TRUE(whole.row.holds) << whole.row.detail << text_of(options);
    for (const int replicas : {1, 2}) {
      for (const bool folds_tp : {false, true}) {
        const StepReport folded = full_size_step(request, {replicas, false, folds_tp});
        ASSERT_TRUE(folded.row.holds) << folded.row.detail << text_of(options);
        ASSERT_NE(folded.row.detail.find("replicas"), std::string::npos) << folded.row.detail;
        ASSERT_EQ(folded.ledger, whole.ledger) << text_of(options);
        ASSERT_TRUE(are_same(folded.stages, whole.stages)) << text_of(options);
      }
    }
  }
}

TEST(FullSizeStep, AFoldedWorldWithExpertsHasTheLedgerOfTheWholeOne) {
  for (std::uint64_t seed = 0; seed < kDraws; ++seed) {
    const NamedValues options = foldable_options(seed);
    const ScenarioRequest request = test::scenario_request(options);
    ASSERT_EQ(can_run_full_size(request).reason, "") << text_of(options);
    const int block = block_of_replicas(request);
    ASSERT_LT(block, request.layout.dp) << text_of(options);
    const StepReport whole = full_size_step(request, {request.layout.dp});
    ASSERT_TRUE(whole.row.holds) << whole.row.detail << text_of(options);
    for (const int replicas : {block, 2 * block}) {
      const StepReport folded = full_size_step(request, {replicas});
      ASSERT_TRUE(folded.row.holds) << folded.row.detail << text_of(options);
      ASSERT_EQ(folded.ledger, whole.ledger) << text_of(options);
      ASSERT_TRUE(are_same(folded.stages, whole.stages)) << text_of(options);
    }
  }
}

/// Ranks whose groups of experts lie over nodes in different ways have no twins.
TEST(FullSizeStep, ReplicasThatExchangeTokensAreFoldedInBlocks) {
  const auto block_of = [](const char* ep, const char* gpus_per_node) {
    return block_of_replicas(test::scenario_request({{"world-size", "24"},
                                                     {"expert-model-parallel-size", ep},
                                                     {"gpus-per-node", gpus_per_node},
                                                     {"num-experts", "24"},
                                                     {"disable-bias-linear", "true"}}));
  };
  EXPECT_EQ(block_of("1", "8"), 1);
  EXPECT_EQ(block_of("4", "8"), 4);
  EXPECT_EQ(block_of("8", "8"), 8);
  EXPECT_EQ(block_of("8", "4"), 8);
  EXPECT_EQ(block_of("4", "6"), 12);
  EXPECT_EQ(block_of("24", "8"), 24);
}

/// Runs the step of a small model on a device.
sim::RunReport run_on(const ScenarioRequest& request, sim::Device& device) {
  return sim::simulate(request.world, device, [&](sim::Rank& rank) {
    run_full_size_step(rank, full_size_training(request, rank.groups.get("pp").rank()));
  });
}

/// The run hash has the contents of all call records, rank by rank.
TEST(FullSizeStep, CallsWhatTheSameModelCallsWithElements) {
  for (std::uint64_t seed = 0; seed < kDraws / 3; ++seed) {
    for (const NamedValues& options :
         {drawn_options(seed, false), drawn_options(seed, true), foldable_options(seed)}) {
      const ScenarioRequest request = test::scenario_request(options);
      sim::CpuDevice cpu;
      sim::ShapesDevice shapes;
      const sim::RunReport computed = run_on(request, cpu), counted = run_on(request, shapes);
      ASSERT_TRUE(computed.ok()) << computed.failure() << text_of(options);
      ASSERT_TRUE(counted.ok()) << counted.failure() << text_of(options);
      ASSERT_EQ(computed.ledger, counted.ledger) << text_of(options);
      ASSERT_EQ(computed.run_hash, counted.run_hash) << text_of(options);
    }
  }
}

TEST(FullSizeStep, AStepWithExpertsSaysThatTheChoiceIsBalanced) {
  const StepReport step = full_size_step(test::scenario_request(drawn_options(0, true)), {1});
  EXPECT_EQ(full_size_step(test::scenario_request(one_world()), {1}).choice_of_experts, "");
  EXPECT_TRUE(step.choice_of_experts.starts_with("balanced choice: token t")) << step.choice_of_experts;
  EXPECT_NE(step.row.detail.find(step.choice_of_experts), std::string::npos);
}

/// Small steps run whole, larger ones with two replicas or one, unless every rank is asked for.
TEST(FullSizeStep, ReplicasAreFoldedWhereTheyMakeManyCalls) {
  const auto part_of = [](const char* batch, bool every_rank) {
    NamedValues options = {{"world-size", "64"},         {"num-layers", "100"}, {"hidden-size", "8"},
                           {"num-attention-heads", "2"}, {"seq-length", "4"},   {"vocab-size", "10"}};
    options.emplace_back("global-batch-size", batch);
    if (every_rank) options.emplace_back("every-rank", "true");
    return running_part(test::scenario_request(options));
  };
  EXPECT_EQ(part_of("64", false).replicas, sim::capped_product({64, 100, 5}) <= kMostStepCalls ? 64 : 2);
  EXPECT_EQ(part_of("1280", false).replicas, 2);
  const bool is_large = sim::capped_product({400, 100, 5}) > kMostStepCalls;
  EXPECT_EQ(part_of("25600", false).replicas, is_large ? 2 : 1);
  EXPECT_EQ(part_of("25600", false).folds_microbatches, is_large);
  EXPECT_TRUE(part_of("64000", false).folds_microbatches);
  EXPECT_EQ(part_of("64000", false).replicas, 2);
  EXPECT_EQ(part_of("64000", true).replicas, 64);
  EXPECT_FALSE(part_of("64000", true).folds_microbatches);
}

TEST(FullSizeStep, StepsHaveTheBytesOfTheClosedForms) {
  for (std::uint64_t seed = 0; seed < kDraws; ++seed) {
    const NamedValues options =
        seed % 3 == 0 ? drawn_options(seed, true) : test::full_size_options(seed, seed % 3 == 1);
    const ScenarioRequest request = test::scenario_request(options);
    ASSERT_EQ(can_run_full_size(request).reason, "") << test::text_of(options);
    ASSERT_EQ(why_no_step_work(request), "") << test::text_of(options);
    const StepReport step = full_size_step(request, {request.layout.dp});
    ASSERT_TRUE(step.row.holds) << step.row.detail << test::text_of(options);
  }
}

/// What ranks hold between steps is what the check "memory" counts. Its largest owner of experts may be
/// another rank than that of dense parameters.
TEST(FullSizeStep, MemoryCountsWhatAStepHolds) {
  for (std::uint64_t seed = 0; seed < kDraws; ++seed) {
    const bool is_dense = seed % 2 == 0;
    const ScenarioRequest request = test::scenario_request(test::full_size_options(seed, !is_dense));
    const MemoryReport memory = scenario_memory(request);
    for (int stage = 0; stage < request.layout.pp; ++stage) {
      const StageMemory& counted = memory.stages[static_cast<std::size_t>(stage)];
      const StaticBytes held = static_bytes(request, stage);
      if (!is_dense && request.model.config.bias) continue;  // the biases of routers are not run
      EXPECT_EQ(counted.parameters, held.parameters);
      EXPECT_EQ(counted.gradients, held.gradients);
      if (is_dense) {
        EXPECT_EQ(counted.optimizer(), held.optimizer);
      }
      EXPECT_GE(counted.optimizer(), held.optimizer);
    }
  }
}

TEST(FullSizeStep, ALedgerThatDiffersFromTheClosedFormsIsTold) {
  const ScenarioRequest request = test::scenario_request(one_world());
  StepReport step = full_size_step(request, {2});
  ASSERT_TRUE(step.row.holds) << step.row.detail;
  const StepTotals expected = expected_totals(request);
  EXPECT_EQ(difference(expected, totals_of(step.ledger)), "");
  for (sim::LedgerRow& row : step.ledger) {
    if (row.site == "row_parallel_linear.forward") row.elements += 1;
  }
  EXPECT_EQ(
      difference(expected, totals_of(step.ledger)),
      "all_reduce of bf16 at 'row_parallel_linear.forward' over tp: 32 calls of 1025 elements, 2048 bytes "
      "inside nodes and 0 across, where the closed form has 32 calls of 1024 elements, 2048 bytes inside "
      "nodes "
      "and 0 across");
}

/// A rank does not know from its record how many rows it sent to each other: the bytes that it sent to other
/// nodes are those of a twin only if their groups lie over nodes in the same way.
TEST(FullSizeStep, ACallOfUnequalRowsIsNotFoldedOntoOtherNodes) {
  sim::WorldSpec spec = sim::world_of(2);
  sim::CpuDevice device;
  const sim::RunReport run = sim::simulate(spec, device, [](sim::Rank& rank) {
    const sim::Tensor rows = sim::filled(rank.device, sim::DType::f32, {3, 1}, 1);
    const sim::Tensor received = sim::filled(rank.device, sim::DType::f32, {rank.id == 0 ? 2 : 4, 1}, 0);
    const std::vector<std::int64_t> expected = {rank.id == 0 ? 1 : 2, rank.id == 0 ? 1 : 2};
    rank.groups.get("dp").all_to_all_uneven(rows, {1, 2}, received, expected, "rows");
  });
  ASSERT_TRUE(run.ok()) << run.failure();
  EXPECT_EQ(ledger_of_all(run, fold_replicas(spec.layout, 2, 1, 1), spec.layout, spec.nodes), run.ledger);
  const ReplicaFold fold = fold_replicas(spec.layout, 1, 1, 1);
  EXPECT_EQ(test::refusal_code([&] { ledger_of_all(run, fold, spec.layout, spec.nodes); }), "replica_fold");
}

/// Each weight of a matrix takes a multiply-add of each token forward and two backward, and so do the
/// products of attention.
TEST(FullSizeStep, MultiplyAddsAreThoseOfTheMatrices) {
  const ScenarioRequest request = test::scenario_request(one_world());
  const StepReport step = full_size_step(request, {2});
  const std::int64_t tokens = 4 * 2, h = 8, tp = 2, ffn = 32, s = 4, vocabulary = 256;
  const std::int64_t weights = (4 * h * h + 2 * h * ffn) / tp;
  const std::int64_t attention = 2 * s * h / tp;  // scores and their product with values, for each token
  const std::int64_t layer = 3 * tokens * (weights + attention);
  EXPECT_EQ(step.stages.at(0).multiply_adds, layer);
  EXPECT_EQ(step.stages.at(1).multiply_adds, layer + 3 * tokens * h * vocabulary / tp);
}

/// Modules that are computed again without calls add their products; the calls stay those of the step.
TEST(FullSizeStep, ModulesThatAreComputedAgainAddTheirProducts) {
  const StepReport plain = full_size_step(test::scenario_request(one_world()), {2});
  NamedValues options = one_world();
  options.insert(options.end(), {{"recompute-granularity", "selective"}, {"recompute-modules", "core_attn"}});
  const ScenarioRequest request = test::scenario_request(options);
  ASSERT_EQ(can_run_full_size(request).reason, "");
  const StepReport step = full_size_step(request, {2});
  ASSERT_TRUE(step.row.holds) << step.row.detail;
  EXPECT_EQ(step.ledger, plain.ledger);
  const std::int64_t tokens = 4 * 2, h = 8, tp = 2, s = 4;
  EXPECT_EQ(step.stages.at(0).multiply_adds, plain.stages.at(0).multiply_adds + tokens * 2 * s * h / tp);
  EXPECT_FALSE(step.left_out.empty());
}

/// A module that makes calls when it is computed again has those of its forward in the backward pass.
TEST(FullSizeStep, AnMlpThatIsComputedAgainRepeatsItsCalls) {
  NamedValues options = one_world();
  options.insert(options.end(), {{"recompute-granularity", "selective"}, {"recompute-modules", "mlp"}});
  const ScenarioRequest plain = test::scenario_request(one_world()), again = test::scenario_request(options);
  ASSERT_EQ(why_no_step_work(again), "");
  EXPECT_NE(can_run_full_size(again).reason, "");
  const auto calls_of = [](const ScenarioRequest& request) {
    std::int64_t calls = 0;
    for (const RepeatedCall& call : step_work(request).front().chunks.front().backward.calls)
      calls += call.times;
    return calls;
  };
  const std::int64_t layers = plain.placement->stages.front().front().count;
  EXPECT_GT(calls_of(again), calls_of(plain));
  EXPECT_EQ((calls_of(again) - calls_of(plain)) % layers, 0);
  const std::int64_t tokens = 4 * 2, h = 8, tp = 2, ffn = 32;
  EXPECT_EQ(step_work(again).front().multiply_adds(2) - step_work(plain).front().multiply_adds(2),
            layers * tokens * 2 * h * ffn / tp);
}

TEST(FullSizeStep, WhatDoesNotRunAtFullSizeSaysWhy) {
  NamedValues options = one_world();
  options.insert(options.end(), {{"num-experts", "4"},
                                 {"disable-bias-linear", "true"},
                                 {"sequence-parallel", "true"},
                                 {"moe-token-dispatcher-type", "flex"},
                                 {"moe-expert-capacity-factor", "1"}});
  EXPECT_EQ(can_run_full_size(test::scenario_request(options)).reason,
            "a capacity of experts is not run at full size with the dispatcher flex");
  options = one_world();
  std::erase_if(options, [](const auto& option) { return option.first == "global-batch-size"; });
  EXPECT_FALSE(can_run_full_size(test::scenario_request(options)).is_asked_for);
}

}  // namespace
