// Proves what a replay says beside its verdict: the line of progress, the numbers of its document, the rows
// that are missing, and what remains with --layout-only.

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "tests/support/run.h"
#include "verify/program/program.h"
#include "verify/replay/replay_checks.h"
#include "verify/vocabulary/command_line.h"

namespace {

using nlohmann::ordered_json;

constexpr const char* kPipeline = "--world-size 8 --pipeline-model-parallel-size 4 --num-microbatches 8 ";
constexpr const char* kSizes = "--num-layers 8 --hidden-size 64 --num-attention-heads 4 --seq-length 32 ";

ordered_json scenario_of(const std::string& options) {
  const test::RunResult result = test::run("replay " + options + " --format json");
  EXPECT_EQ(result.exit_code, 0) << options << result.out << result.err;
  return ordered_json::parse(result.out)["scenarios"][0];
}

std::set<std::string> names(const ordered_json& rows) {
  std::set<std::string> all;
  for (const auto& row : rows) all.insert(row["check"]);
  return all;
}

std::string detail_of(const ordered_json& scenario, const std::string& name) {
  for (const auto& check : scenario["checks"]) {
    if (check["check"] == name) return check["detail"];
  }
  return "";
}

// ---- progress ---------------------------------------------------------------------------------------------

std::string progress_of(const std::vector<std::string>& words, bool is_terminal) {
  std::ostringstream out, err;
  EXPECT_EQ(verify::run_program(words, {.out = out, .err = err, .progress = is_terminal}), 0) << err.str();
  EXPECT_EQ(out.str().find(" steps: "), std::string::npos);
  return err.str();
}

TEST(ReplayProgress, NamesTheCheckAndTheTimeThatIsLeft) {
  const std::vector<std::string> words = {"replay", "--world-size",  "8", "--tensor-model-parallel-size",
                                          "4",      "--train-iters", "4"};
  const std::string shown = progress_of(words, true);
  const std::string clear = "\r\x1b[K";
  EXPECT_NE(shown.find(" steps: partition"), std::string::npos) << shown;
  EXPECT_TRUE(shown.ends_with(clear)) << "the line is removed at the end";
  // How many lines come after the first depends on the machine; each has a rate and the time that is left.
  for (std::size_t at = shown.find(clear, clear.size()); at + clear.size() < shown.size();) {
    const std::size_t next = shown.find(clear, at + clear.size());
    const std::string line = shown.substr(at, next - at);
    EXPECT_NE(line.find(" steps/s, "), std::string::npos) << line;
    EXPECT_NE(line.find(" s left: "), std::string::npos) << line;
    at = next;
  }
  EXPECT_EQ(progress_of(words, false), "");
}

TEST(ReplayProgress, OfSeveralScenariosNamesEachWithItsCheck) {
  const std::string file = "scenarios/published/seed-002-dense.ini";
  const std::string shown = progress_of({"replay", file, file, "--train-iters", "0"}, true);
  EXPECT_NE(shown.find("/2 scenarios"), std::string::npos) << shown;
  EXPECT_NE(shown.find(file + ": partition"), std::string::npos) << shown;
}

// ---- numbers ----------------------------------------------------------------------------------------------

TEST(ReplayNumbers, TheBubbleIsInPerCentAndInUnits) {
  const ordered_json plain = scenario_of(kPipeline + std::string("--train-iters 0"));
  EXPECT_EQ(plain["pipeline"]["work_units"], 16);   // 8 microbatches, forward and backward
  EXPECT_EQ(plain["pipeline"]["bubble_units"], 6);  // 2 (p - 1)
  EXPECT_EQ(plain["pipeline"]["bubble_percent"], 37.5);
  EXPECT_NE(detail_of(plain, "schedule").find("the bubble is 37.5 % of the work"), std::string::npos);
  const ordered_json chunks =
      scenario_of(kPipeline + std::string("--train-iters 0 --virtual-pipeline-model-parallel-size 3"));
  EXPECT_EQ(chunks["pipeline"]["bubble_percent"], 12.5);  // (p - 1) / (v m)
}

TEST(ReplayNumbers, MemoryAndLossesHaveTheirUnits) {
  const ordered_json scenario = scenario_of(
      "--world-size 4 --pipeline-model-parallel-size 2 --num-microbatches 2 --train-iters 3 "
      "--vocab-size 512 " +
      std::string(kSizes));
  ASSERT_EQ(scenario["memory"]["stages"].size(), 2U);
  EXPECT_EQ(scenario["memory"]["owners"], 2);
  for (const auto& stage : scenario["memory"]["stages"]) {
    std::int64_t sum = 0;
    for (const auto& [part, bytes] : stage["parts"].items()) sum += bytes.get<std::int64_t>();
    EXPECT_EQ(stage["peak_bytes"], sum);
    EXPECT_LT(stage["static_bytes"], stage["peak_bytes"]);
    for (const char* part : {"parameters", "gradients", "optimizer_moments", "activations"})
      EXPECT_GT(stage["parts"][part], 0) << part;
    EXPECT_EQ(stage["parts"]["gradients"], 2 * stage["parts"]["parameters"].get<std::int64_t>());
  }
  const ordered_json& training = scenario["training"];
  EXPECT_TRUE(training["is_equal_in_field"].get<bool>());
  for (const char* list : {"losses_nats", "reference_losses_nats", "bounds_nats"})
    EXPECT_EQ(training[list].size(), 3U) << list;
  EXPECT_LT(training["losses_nats"][0], 8);  // about the logarithm of 256
}

// ---- rows that are missing --------------------------------------------------------------------------------

std::string reason_of(const ordered_json& scenario, const std::string& check) {
  if (!scenario.contains("absent")) return "";
  for (const auto& row : scenario["absent"]) {
    if (row["check"] == check) return row["reason"];
  }
  return "";
}

TEST(ReplayAbsence, AMissingRowHasItsReason) {
  const std::string small = "--world-size 2 --train-iters 0 ";
  EXPECT_EQ(reason_of(scenario_of(small + kSizes), "memory"), "--vocab-size is not given");
  EXPECT_EQ(reason_of(scenario_of(small + "--hidden-size 64 --vocab-size 8"), "memory"),
            "--num-layers, --num-attention-heads, --seq-length are not given");
  const std::string whole = small + kSizes + "--vocab-size 512 ";
  EXPECT_EQ(reason_of(scenario_of(whole), "memory"), "");
  EXPECT_EQ(reason_of(scenario_of(whole + "--expert-model-parallel-size 2 --num-experts 2"), "memory"), "");
  EXPECT_NE(test::run("replay " + whole +
                      "--expert-model-parallel-size 2 --num-experts 2 --moe-router-topk 1 "
                      "--moe-router-pre-softmax --moe-token-dispatcher-type alltoall")
                .out.find("of activations if the router spreads tokens evenly"),
            std::string::npos);
  EXPECT_EQ(reason_of(scenario_of(whole + "--forward-only"), "memory"),
            "--forward-only keeps nothing for a backward pass");
  EXPECT_EQ(reason_of(scenario_of(small), "memory"), "") << "nobody asked for a model";
  EXPECT_EQ(reason_of(scenario_of(small + "--pipeline-model-parallel-size 2"), "schedule"),
            "the scenario gives neither num-microbatches nor global-batch-size");
  EXPECT_NE(
      reason_of(scenario_of(small + "--pipeline-model-parallel-size 2 --num-microbatches 50000"), "schedule")
          .find("200000 steps over all ranks"),
      std::string::npos);
  const std::string text = test::run("replay " + small + kSizes).out;
  EXPECT_NE(text.find("memory           no row: --vocab-size is not given"), std::string::npos) << text;
}

// ---- rows that were asked for --------------------------------------------------------------------------------

/// --gpu-memory asks for the row `memory`, which needs a vocabulary.
TEST(ReplayInPart, AnUnansweredOptionIsNotVerified) {
  const std::string asked = "replay --layout-only --world-size 2 --gpu-memory 80GB " + std::string(kSizes);
  const test::RunResult part = test::run(asked);
  EXPECT_EQ(part.exit_code, verify::kInPart);
  EXPECT_NE(part.out.find("SKIPPED  memory"), std::string::npos) << part.out;
  EXPECT_NE(part.out.find("verified in part: memory not checked (--vocab-size is not given); 1 scenario"),
            std::string::npos)
      << part.out;
  EXPECT_EQ(test::run(asked + "--vocab-size 512").exit_code, verify::kVerified) << "the healthy twin";
  EXPECT_EQ(test::run(asked + "--allow-skipped").exit_code, verify::kVerified);
  EXPECT_EQ(test::run("replay --layout-only --world-size 2 " + std::string(kSizes)).exit_code,
            verify::kVerified)
      << "nobody asked for memory";
}

/// An argument that the model does not have leaves a part of the run without proof.
TEST(ReplayInPart, ARunIsAskedForWhole) {
  const std::string run =
      "torchrun --nproc-per-node 2 pretrain_gpt.py --num-layers 2 --hidden-size 8 --seq-length 8 "
      "--num-attention-heads 2 --micro-batch-size 1 --max-position-embeddings 8 "
      "--vocab-size 128 --hidden-dropout 0 --attention-dropout 0 ";
  const auto replayed = [](const std::string& words, const std::string& more) {
    const test::TemporaryFile file("run.sh", words + "\n");
    return test::run("replay --train-iters 2 " + more + "--from " + file.path() + " --format json");
  };
  EXPECT_EQ(replayed(run, "").exit_code, verify::kVerified) << "the healthy twin";
  const test::RunResult part = replayed(run + "--fp16-lm-cross-entropy --deepspeed", "");
  EXPECT_EQ(part.exit_code, verify::kInPart) << part.out << part.err;
  const ordered_json document = ordered_json::parse(part.out);
  EXPECT_EQ(document["verdict"], "verified in part");
  bool is_skipped = false;
  for (const ordered_json& row : document["scenarios"][0]["absent"])
    is_skipped = is_skipped || row["asked_for"];
  EXPECT_TRUE(is_skipped) << part.out;
  EXPECT_EQ(replayed(run + "--fp16-lm-cross-entropy --deepspeed", "--allow-skipped ").exit_code,
            verify::kVerified);
}

/// The lines under a verdict say what ran, with what was reduced, and what was not proved.
TEST(ReplayBound, SaysWhatRan) {
  const auto last_run = [](const std::string& words) {
    const test::RunResult result = test::run("replay --world-size 2 " + words + " --format json");
    return ordered_json::parse(result.out)["ran"].back().get<std::string>();
  };
  EXPECT_EQ(last_run("--layout-only"), "no rank: only the layout was proved");
  const std::string trained = last_run("--train-iters 2 --vocab-size 512 " + std::string(kSizes));
  EXPECT_NE(trained.find("a training of shardproof at tp 1, pp 1, dp 2 ("), std::string::npos) << trained;
  EXPECT_NE(trained.find("vocabulary 512 to 256"), std::string::npos) << trained;
  const std::string text = test::run("replay --world-size 2 --layout-only").out;
  EXPECT_TRUE(
      text.ends_with("\nran: no rank: only the layout was proved\n"
                     "not proved: your own program, which `run` executes\n"))
      << text;
}

TEST(ReplayWarnings, TensorParallelGroupsAcrossNodes) {
  const std::string options = "--world-size 16 --tensor-model-parallel-size 8 --train-iters 0 ";
  EXPECT_TRUE(scenario_of(options)["warnings"].empty());
  const ordered_json warnings = scenario_of(options + "--gpus-per-node 4")["warnings"];
  ASSERT_EQ(warnings.size(), 1U) << warnings;
  EXPECT_EQ(warnings[0]["name"], "tp_across_nodes");
  EXPECT_EQ(warnings[0]["message"].get<std::string>().find("2 of 2 tp groups cross a node of 4 GPUs"), 0U);
}

// ---- --layout-only ----------------------------------------------------------------------------------------

TEST(ReplayLayoutOnly, RunsNoRanksAndSaysSo) {
  const std::string options = kPipeline + std::string(kSizes) + "--vocab-size 512 --train-iters 2 ";
  const ordered_json all = scenario_of(options), only = scenario_of(options + "--layout-only");
  EXPECT_FALSE(only.contains("training"));
  EXPECT_TRUE(only["ledger"].empty());
  std::set<std::string> of_layout;
  for (const verify::ReplayCheck& check : verify::replay_checks()) {
    if (check.of == verify::CheckOf::layout) of_layout.insert(check.name);
  }
  for (const std::string& name : names(only["checks"])) EXPECT_TRUE(of_layout.contains(name)) << name;
  for (const std::string& name : names(all["checks"]))
    EXPECT_EQ(names(only["checks"]).contains(name), of_layout.contains(name)) << name;
  for (const char* left_out : {"collectives", "sharded P", "training"})
    EXPECT_EQ(reason_of(only, left_out), "--layout-only") << left_out;
}

}  // namespace
