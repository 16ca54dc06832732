// Proves which layers of a scenario are checked, with its own tp and flags, and that a wrong layer is named.

#include "verify/checks/sharded_layers.h"

#include <algorithm>
#include <gtest/gtest.h>

#include "tests/support/request.h"
#include "verify/faults/faulty_device.h"
#include "verify/properties/bench.h"

namespace {

using namespace verify;

/// A scenario of a world and its tensor-model-parallel size, with more options.
ScenarioRequest scenario(int world, int tp, NamedValues options) {
  options.push_back({"world-size", std::to_string(world)});
  options.push_back({"tensor-model-parallel-size", std::to_string(tp)});
  return test::scenario_request(options);
}

const CheckResult& row(const std::vector<CheckResult>& rows, const std::string& check) {
  return *std::find_if(rows.begin(), rows.end(), [&](const CheckResult& r) { return r.check == check; });
}

TEST(ShardedLayers, HaveARowForEachProperty) {
  Bench bench;
  ProvedSettings proved;
  const auto rows = check_sharded_layers(
      scenario(16, 8, {{"vocab-size", "51200"}, {"sequence-parallel", "true"}}), bench, proved);
  ASSERT_EQ(rows.size(), 6U);
  for (const CheckResult& one : rows) EXPECT_TRUE(one.holds) << one.check << ": " << one.detail;
  EXPECT_EQ(row(rows, "sharded serial").detail,
            "33 cases at tp 8, dp 2, sequence parallel: after gathering shards, every output equals the "
            "serial reference");
  EXPECT_NE(row(rows, "sharded calls")
                .detail.find("the loss moves 3 values per token, where gathered logits would be 51200"),
            std::string::npos);
}

TEST(ShardedLayers, AreThoseThatTheScenarioNames) {
  Bench bench;
  ProvedSettings proved;
  const auto rows = check_sharded_layers(
      scenario(4, 4, {{"case", "mlp,parallel_norm"}, {"property", "special"}, {"dtype", "f32,bf16"}}), bench,
      proved);
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows.front().check, "sharded special");
  EXPECT_EQ(rows.front().detail.find("2 cases at tp 4, dp 1: "), 0U) << rows.front().detail;
}

TEST(ShardedLayers, OfAWideGroupRunOnPartOfIt) {
  Bench bench;
  ProvedSettings proved;
  const auto rows = check_sharded_layers(scenario(48, 48, {{"case", "row_parallel_linear"}}), bench, proved);
  EXPECT_EQ(rows.front().detail.find("1 case at tp 16 for 48, dp 1: "), 0U) << rows.front().detail;
}

TEST(ShardedLayers, ShareSequencesAsTheScenarioDoes) {
  Bench bench;
  ProvedSettings proved;
  const auto rows = check_sharded_layers(
      scenario(8, 1, {{"context-parallel-size", "4"}, {"case", "cp_attention"}}), bench, proved);
  EXPECT_EQ(rows.front().detail.find("1 case at tp 1, dp-cp 8, cp 4: "), 0U) << rows.front().detail;
}

TEST(ShardedLayers, ThatAreWrongAreNamedWithTheLineThatReplaysThem) {
  Bench bench;
  ProvedSettings proved;
  bench.plant(parsed_faults({"device.softmax:scale=2"}));
  const auto rows = check_sharded_layers(
      scenario(4, 4, {{"num-attention-heads", "8"}, {"case", "self_attention,mlp"}}), bench, proved);
  const CheckResult& serial = row(rows, "sharded serial");
  EXPECT_FALSE(serial.holds);
  EXPECT_EQ(serial.detail.find("self_attention, tp 4, field, seed 0, "), 0U) << serial.detail;
  EXPECT_EQ(serial.reproduce.find(" --case self_attention"), 0U) << serial.reproduce;
  EXPECT_NE(serial.reproduce.find(" --dimensions batch=1,"), std::string::npos) << serial.reproduce;
  EXPECT_TRUE(row(rows, "sharded agree").holds);
  EXPECT_TRUE(row(rows, "sharded calls").holds);
}

TEST(ShardedLayers, ThatAreProvedDoNotRunAgain) {
  const ScenarioRequest request = scenario(4, 2, {{"case", "mlp,self_attention"}, {"dtype", "f32"}});
  const auto wrong_device = std::make_shared<FaultyDevice>(parsed_faults({"device.matmul:zero"}));
  Bench bench, wrong_bench(wrong_device);
  ProvedSettings proved, other;
  const auto rows = check_sharded_layers(request, bench, proved);
  const auto told = check_sharded_layers(request, wrong_bench, proved);
  ASSERT_EQ(rows.size(), told.size());
  for (std::size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(rows[i].detail, told[i].detail);
  EXPECT_FALSE(row(check_sharded_layers(request, wrong_bench, other), "sharded serial").holds);
}

}  // namespace
