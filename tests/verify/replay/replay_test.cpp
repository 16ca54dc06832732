// Proves the command replay: its verdicts, its checks, its reproduce lines and its documents.

#include "verify/replay/replay.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/run.h"
#include "verify/requests/requests.h"
#include "verify/vocabulary/command_line.h"

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

// Each scenario is a test of its own (scenario.* in tests/CMakeLists.txt), in which virtual ranks run and
// train.
TEST(Replay, WithoutAFileAllScenariosAreReplayed) {
  const test::RunResult result = test::run("replay --layout-only");
  EXPECT_EQ(result.exit_code, 0) << result.out;
  EXPECT_NE(result.out.find("\nverified: "), std::string::npos);
}

TEST(Replay, OfALargeWorldASampleRunsAndTheCheckSaysSo) {
  const std::string detail = check_named(
      replayed("--world-size 8192 --tensor-model-parallel-size 8 --pipeline-model-parallel-size 4", 0),
      "collectives")["detail"];
  EXPECT_EQ(detail.substr(0, detail.find("; run hash")),
            "2216 groups of 17 kinds: all_reduce, all_gather and reduce_scatter as defined, on 3024 virtual "
            "ranks, a sample of 8192; intra-dist-opt is too large to run");
}

TEST(Replay, WhatRunsMayLieAnywhereInItsWorld) {
  replayed("--world-size 4 --rank-offset 4", 0);
  replayed("--world-size 4 --rank-offset 4 --program crossed_groups --expect-finding deadlock", 0);
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

TEST(Replay, AFindingIsInTheDocumentWithAllThatItsReaderNeeds) {
  const ordered_json scenario =
      replayed("--program wrong_count --world-size 3 --rank-offset 5 --schedule pct --schedule-seed 5",
               3)["scenarios"][0];
  ASSERT_EQ(scenario["findings"].size(), 1U);
  const ordered_json& finding = scenario["findings"][0];
  EXPECT_EQ(finding["code"], "size_or_syntax_mismatch");
  EXPECT_EQ(finding["more_calls"], 0);
  for (const char* text : {"sentence", "rule", "hint"}) EXPECT_NE(finding[text], "") << text;
  ASSERT_EQ(finding["calls"].size(), 3U);
  ordered_json call = finding["calls"][1];
  EXPECT_GT(call["line"], 0);
  call.erase("line");
  EXPECT_EQ(call,
            ordered_json::parse(R"({"rank":6,"state":"arrived at","group":"world[0] = {5, 6, 7}","sequence":0,
      "operation":"all_reduce","count":5,"dtype":"f32","reduction":"sum","site":"wrong_count.sum",
      "file":"verify/checks/planted_programs.cpp"})"));
  EXPECT_EQ(scenario["reproduce"],
            "./shardproof replay --program wrong_count --rank-offset 5 --schedule pct --schedule-seed 5 "
            "--world-size 3");
}

TEST(Replay, OptionsOfTheWorldReachIt) {
  const verify::CommandLine line = verify::parse_command_line(
      {"replay",  "--world-size",      "4",        "--schedule",    "pct", "--schedule-seed",
       "9",       "--pct-depth",       "5",        "--threads",     "2",   "--ranks-as",
       "threads", "--reduction-order", "shuffled", "--eager-bytes", "77",  "--stack-bytes",
       "65536",   "--gpus-per-node",   "2"});
  const sim::WorldSpec spec = verify::requested_world(line.settings, sim::world_of(4).layout);
  EXPECT_EQ(spec.schedule.policy, sim::SchedulePolicy::pct);
  EXPECT_EQ(spec.schedule.seed, 9U);
  EXPECT_EQ(spec.schedule.depth, 5);
  EXPECT_EQ(spec.threads, 2);
  EXPECT_EQ(spec.contexts, sim::ContextKind::thread);
  EXPECT_EQ(spec.reduction_order.kind, sim::ReductionOrderKind::shuffled);
  EXPECT_EQ(spec.reduction_order.seed, 9U);
  EXPECT_EQ(spec.eager_bytes, 77);
  EXPECT_EQ(spec.stack_bytes, 65536U);
  EXPECT_EQ(spec.nodes.gpus_per_node, 2);
}

// Every value of a choice gives a different world, and none falls back to the default.
TEST(Replay, ChoicesOfTheWorldAreEachTheirOwn) {
  const auto spec_with = [](const std::string& option, const std::string& word) {
    const verify::CommandLine line =
        verify::parse_command_line({"replay", "--world-size", "4", option, word});
    return sim::text_of(verify::requested_world(line.settings, sim::world_of(4).layout));
  };
  for (const char* schedule : {"round_robin", "uniform", "pct"}) {
    EXPECT_NE(spec_with("--schedule", schedule).find(std::string("schedule ") + schedule), std::string::npos);
  }
  for (const char* order : {"rank_order", "nccl_ring", "shuffled"}) {
    EXPECT_NE(spec_with("--reduction-order", order).find(std::string("order ") + order), std::string::npos);
  }
}

// The line that a failure prints gives the same verdict when it is run, including lists, flags and
// quoted words.
TEST(Replay, EveryReproduceLineReproduces) {
  const test::TemporaryFile spaced("with a blank.ini", "# Source: a test\nworld-size = 8\nswiglu = true\n");
  const std::vector<std::string> failing = {
      "--world-size 8 --context-parallel-size 8 --hierarchical-context-parallel-sizes 2 4 "
      "--global-batch-size 3 "
      "--micro-batch-size 2",
      "--world-size 6 --pipeline-model-parallel-size 2 --use-tp-pp-dp-mapping --swiglu=false "
      "--global-batch-size 2",
      "--world-size 6 --tensor-model-parallel-size 4",
      "'" + spaced.path() + "' --global-batch-size 8 --expect-groups 'tp [0]' --expect-groups 'dp [0,1]'",
  };
  for (const std::string& options : failing) {
    const test::RunResult result = test::run("replay " + options + " --format json");
    ASSERT_NE(result.exit_code, 0) << options;
    const ordered_json first = ordered_json::parse(result.out)["scenarios"][0];
    const std::string line = first["reproduce"];
    const test::RunResult again = test::run(line.substr(line.find("replay")) + " --format json");
    EXPECT_EQ(again.exit_code, result.exit_code) << line;
    const ordered_json second = ordered_json::parse(again.out)["scenarios"][0];
    EXPECT_EQ(second["checks"], first["checks"]) << line;
    EXPECT_EQ(second.value("error", ordered_json()), first.value("error", ordered_json())) << line;
  }
  EXPECT_NE(replayed("--world-size 6 --swiglu --global-batch-size 5", 2)["scenarios"][0]["reproduce"]
                .get<std::string>()
                .find(" --swiglu --"),
            std::string::npos);
}

TEST(Replay, PublishedParametersAgreeToThePrintedDigitsOnly) {
  const std::string start = std::string("--layout-only --world-size 32 ") + kShape + " --expect-parameters ";
  for (const char* figure : {"1.7B", "1.6B", "1.65B", "2B", "1B", "1652M"}) {
    EXPECT_EQ(check_named(replayed(start + figure, 0), "parameters")["holds"], true) << figure;
  }
  for (const char* figure : {"1.5B", "1.8B", "1.64B", "3B", "1654M", "0.1T"}) {
    EXPECT_EQ(check_named(replayed(start + figure, 1), "parameters")["holds"], false) << figure;
  }
}

TEST(Replay, AHalfUnitAgreesWithTheFigureAboveAndTheFigureBelow) {
  const std::string shape =  // 12 * 5^2 + 13 * 5 + 15 * 5 + 2 * 5 = 450
      "--world-size 1 --num-layers 1 --hidden-size 5 --num-attention-heads 1 --seq-length 10 --vocab-size 5 "
      "--expect-parameters ";
  replayed(shape + "0.0004M", 0);
  replayed(shape + "0.0005M", 0);
  replayed(shape + "0.0003M", 1);
  replayed(shape + "0.0006M", 1);
}

TEST(Replay, AGatedMlpIsTwoThirdsAsWideByDefault) {
  const std::string shape =
      "--world-size 8 --num-layers 1 --hidden-size 768 --num-attention-heads 12 --seq-length 1 --vocab-size "
      "1 "
      "--swiglu --disable-bias-linear --normalization RMSNorm --expect-parameters ";
  // 4 * 768^2 + 3 * 768 * 2048 + norms 3 * 768 + 2 * 768
  EXPECT_EQ(check_named(replayed(shape + "7.08M", 0), "parameters")["detail"],
            "7081728 from the shape, 7.08M as published");
}

TEST(Replay, ABatchThatDoesNotDivideIsRefused) {
  EXPECT_EQ(replayed("--world-size 8 --global-batch-size 12", 2)["scenarios"][0]["error"]["code"],
            "microbatches_div");
  // Context-parallel ranks share their samples, so 8 ranks with cp 2 are 4 replicas.
  EXPECT_EQ(check_named(replayed("--world-size 8 --context-parallel-size 2 --global-batch-size 4", 0),
                        "batch")["detail"],
            "global batch 4 = 1 microbatch of 1 on 4 replicas");
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
  const test::TemporaryFile falsified("c.ini", "# Source: a test\nworld-size = 8\nexpect-groups = tp [0]\n");
  EXPECT_EQ(replayed(sound.path(), 0)["verdict"], "verified");
  const ordered_json two = replayed(refused.path() + " missing.ini " + sound.path(), 2);
  EXPECT_EQ(two["scenarios"].size(), 3U);
  EXPECT_EQ(two["scenarios"][1]["error"]["code"], "scenario_missing");
  EXPECT_EQ(two["scenarios"][2]["verdict"], "verified");
  EXPECT_EQ(replayed(refused.path() + " " + falsified.path(), 1)["verdict"], "falsified");
}

TEST(Replay, WarningsAreRowsAndDoNotFail) {
  const ordered_json document =
      replayed("--rules legacy --world-size 4 --tensor-model-parallel-size 8 --train-iters 0", 0);
  EXPECT_EQ(document["scenarios"][0]["warnings"][0]["name"], "size_clamped");
}

TEST(Replay, AWarningThatResultsAreWrongIsSuspect) {
  const ordered_json document = replayed(
      "--world-size 8 --expert-tensor-parallel-size 2 --expert-model-parallel-size 2 --order ep-tp-cp-dp-pp",
      5);
  EXPECT_EQ(document["verdict"], "suspect");
  EXPECT_EQ(document["scenarios"][0]["verdict"], "suspect");
  EXPECT_EQ(document["scenarios"][0]["warnings"][0]["name"], "dispatcher_order");
}

}  // namespace
