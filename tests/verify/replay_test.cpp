#include "verify/replay.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/run.h"

namespace {

using nlohmann::ordered_json;

constexpr const char* kShape =
    "--num-layers 24 --hidden-size 2304 --num-attention-heads 24 --seq-length 2048 --vocab-size 51200";

ordered_json replayed(const std::string& options, int exit_code) {
  const test::RunResult result = test::run("replay " + options + " --format json");
  EXPECT_EQ(result.exit_code, exit_code) << options << result.out << result.err;
  return ordered_json::parse(result.out);
}

ordered_json check_named(const ordered_json& document, const std::string& name) {
  for (const auto& check : document["scenarios"][0]["checks"]) {
    if (check["check"] == name) return check;
  }
  return {};
}

TEST(Replay, AllScenariosAreVerified) {
  const test::RunResult result = test::run("replay");
  EXPECT_EQ(result.exit_code, 0) << result.out;
  EXPECT_NE(result.out.find("\nverified: "), std::string::npos);
}

TEST(Replay, AWrongListIsFalsifiedWithALineThatReproducesIt) {
  const ordered_json document =
      replayed("--world-size 4 --tensor-model-parallel-size 2 --expect-groups 'tp [0,2],[1,3]'", 1);
  EXPECT_EQ(document["verdict"], "falsified");
  EXPECT_EQ(check_named(document, "expected tp")["holds"], false);
  const std::string line = document["scenarios"][0]["reproduce"];
  EXPECT_EQ(
      line,
      "./shardproof replay --expect-groups 'tp [0,2],[1,3]' --tensor-model-parallel-size 2 --world-size 4");
  EXPECT_EQ(test::run(line.substr(line.find("replay"))).exit_code, 1);
}

TEST(Replay, PublishedParametersAgreeToThePrintedDigitsOnly) {
  const std::string start = std::string("--world-size 32 ") + kShape + " --expect-parameters ";
  for (const char* figure : {"1.7B", "1.6B", "1.65B", "2B", "1B", "1652M"}) {
    EXPECT_EQ(check_named(replayed(start + figure, 0), "parameters")["holds"], true) << figure;
  }
  for (const char* figure : {"1.5B", "1.8B", "1.64B", "3B", "1654M", "0.1T"}) {
    EXPECT_EQ(check_named(replayed(start + figure, 1), "parameters")["holds"], false) << figure;
  }
}

TEST(Replay, ABatchThatDoesNotDivideIsFalsified) {
  EXPECT_EQ(check_named(replayed("--world-size 8 --global-batch-size 12", 1), "batch")["holds"], false);
  EXPECT_EQ(check_named(replayed("--world-size 8 --global-batch-size 16 --micro-batch-size 2", 0),
                        "batch")["holds"],
            true);
}

TEST(Replay, AnExpectedRefusalMustHappenAndForTheStatedReason) {
  replayed("--world-size 6 --tensor-model-parallel-size 4 --expect refused", 0);
  replayed("--world-size 6 --tensor-model-parallel-size 4 --expect refused --expect-refusal dense_div", 0);
  replayed("--world-size 6 --tensor-model-parallel-size 4 --expect refused --expect-refusal expert_div", 1);
  replayed("--world-size 8 --tensor-model-parallel-size 4 --expect refused", 1);
}

TEST(Replay, ARefusedScenarioDoesNotStopTheOthers) {
  const test::TemporaryFile refused("a.ini",
                                    "# Source: a test\nworld-size = 6\ntensor-model-parallel-size = 4\n");
  const test::TemporaryFile sound("b.ini", "# Source: a test\nworld-size = 8\n");
  const test::TemporaryFile falsified("c.ini", "# Source: a test\nworld-size = 8\nglobal-batch-size = 3\n");
  EXPECT_EQ(replayed(sound.path(), 0)["verdict"], "verified");
  const ordered_json two = replayed(refused.path() + " missing.ini " + sound.path(), 2);
  EXPECT_EQ(two["scenarios"].size(), 3U);
  EXPECT_EQ(two["scenarios"][1]["error"]["code"], "scenario_missing");
  EXPECT_EQ(two["scenarios"][2]["verdict"], "verified");
  EXPECT_EQ(replayed(refused.path() + " " + falsified.path(), 1)["verdict"], "falsified");
}

TEST(Replay, WarningsAreRowsAndDoNotFail) {
  const ordered_json document = replayed(
      "--world-size 8 --expert-tensor-parallel-size 2 --expert-model-parallel-size 2 --order ep-tp-cp-dp-pp",
      0);
  EXPECT_EQ(document["scenarios"][0]["warnings"][0]["name"], "dispatcher_order");
}

}  // namespace
