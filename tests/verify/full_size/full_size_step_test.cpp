// Proves that a step at full size calls what closed forms say, in drawn worlds and models, that a folded
// world has the ledger of the whole one, and that a ledger which differs from the closed forms is told.

#include "verify/full_size/full_size_step.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "sim/cpu/cpu_device.h"
#include "sim/layout/size_rules.h"
#include "tests/support/full_size_options.h"
#include "tests/support/refusal_code.h"
#include "tests/support/request.h"
#include "verify/full_size/full_size_training.h"
#include "verify/full_size/replica_fold.h"
#include "verify/full_size/step_totals.h"

namespace {

using namespace verify;

#ifdef SHARDPROOF_SANITIZED
constexpr std::uint64_t kDraws = 6;
#else
constexpr std::uint64_t kDraws = 60;
#endif

using test::text_of;

TEST(FullSizeStep, AFoldedWorldHasTheLedgerOfTheWholeOne) {
  for (std::uint64_t seed = 0; seed < kDraws; ++seed) {
    const NamedValues options = test::full_size_options(seed);
    const ScenarioRequest request = test::scenario_request(options);
    ASSERT_EQ(can_run_full_size(request).reason, "") << text_of(options);
    ASSERT_TRUE(can_run_full_size(request).is_asked_for) << text_of(options);
    const StepReport whole = full_size_step(request, request.layout.dp);
    ASSERT_TRUE(whole.row.holds) << whole.row.detail << text_of(options);
    for (const int replicas : {1, 2}) {
      const StepReport folded = full_size_step(request, replicas);
      ASSERT_TRUE(folded.row.holds) << folded.row.detail << text_of(options);
      ASSERT_NE(folded.row.detail.find("replicas"), std::string::npos) << folded.row.detail;
      ASSERT_EQ(folded.ledger, whole.ledger) << text_of(options);
      ASSERT_EQ(folded.stages, whole.stages) << text_of(options);
    }
  }
}

/// Small steps run whole, larger ones with two replicas or one, unless every rank is asked for.
TEST(FullSizeStep, ReplicasAreFoldedWhereTheyMakeManyCalls) {
  const auto replicas_of = [](const char* batch, bool every_rank) {
    NamedValues options = {{"world-size", "64"},         {"num-layers", "100"}, {"hidden-size", "8"},
                           {"num-attention-heads", "2"}, {"seq-length", "4"},   {"vocab-size", "10"}};
    options.emplace_back("global-batch-size", batch);
    if (every_rank) options.emplace_back("every-rank", "true");
    return running_replicas(test::scenario_request(options));
  };
  EXPECT_EQ(replicas_of("64", false), sim::capped_product({64, 100, 5}) <= kMostStepCalls ? 64 : 2);
  EXPECT_EQ(replicas_of("1280", false), 2);
  EXPECT_EQ(replicas_of("25600", false), 1);
  EXPECT_EQ(replicas_of("25600", true), 64);
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

TEST(FullSizeStep, ALedgerThatDiffersFromTheClosedFormsIsTold) {
  const ScenarioRequest request = test::scenario_request(one_world());
  StepReport step = full_size_step(request, 2);
  ASSERT_TRUE(step.row.holds) << step.row.detail;
  const StepTotals expected = expected_step_totals(request);
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

/// A rank does not know from its record how many rows it sent to each other.
TEST(FullSizeStep, ACallOfUnequalRowsIsNotFolded) {
  sim::WorldSpec spec = sim::world_of(2);
  sim::CpuDevice device;
  const sim::RunReport run = sim::simulate(spec, device, [](sim::Rank& rank) {
    const sim::Tensor rows = sim::filled(rank.device, sim::DType::f32, {3, 1}, 1);
    const sim::Tensor received = sim::filled(rank.device, sim::DType::f32, {rank.id == 0 ? 2 : 4, 1}, 0);
    const std::vector<std::int64_t> expected = {rank.id == 0 ? 1 : 2, rank.id == 0 ? 1 : 2};
    rank.groups.get("dp").all_to_all_uneven(rows, {1, 2}, received, expected, "rows");
  });
  ASSERT_TRUE(run.ok()) << run.failure();
  const ReplicaFold fold = fold_replicas(spec.layout, 2);
  EXPECT_EQ(test::refusal_code([&] { ledger_of_all(run, fold, spec.layout, spec.nodes); }), "replica_fold");
}

/// Each weight of a matrix takes a multiply-add of each token forward and two backward, and so do the
/// products of attention.
TEST(FullSizeStep, MultiplyAddsAreThoseOfTheMatrices) {
  const ScenarioRequest request = test::scenario_request(one_world());
  const StepReport step = full_size_step(request, 2);
  const std::int64_t tokens = 4 * 2, h = 8, tp = 2, ffn = 32, s = 4, vocabulary = 256;
  const std::int64_t weights = (4 * h * h + 2 * h * ffn) / tp;
  const std::int64_t attention = 2 * s * h / tp;  // scores and their product with values, for each token
  const std::int64_t layer = 3 * tokens * (weights + attention);
  EXPECT_EQ(step.stages.at(0).multiply_adds, layer);
  EXPECT_EQ(step.stages.at(1).multiply_adds, layer + 3 * tokens * h * vocabulary / tp);
}

TEST(FullSizeStep, WhatDoesNotRunAtFullSizeSaysWhy) {
  NamedValues options = one_world();
  options.insert(options.end(),
                 {{"num-experts", "4"}, {"disable-bias-linear", "true"}, {"sequence-parallel", "true"}});
  EXPECT_EQ(can_run_full_size(test::scenario_request(options)).reason,
            "experts are not run at full size yet");
  options = one_world();
  std::erase_if(options, [](const auto& option) { return option.first == "global-batch-size"; });
  EXPECT_FALSE(can_run_full_size(test::scenario_request(options)).is_asked_for);
}

}  // namespace
