// Proves what users have asked for in their reports: hints that name an option which helps, words in place of
// numbers that are none, and no refusal and no silence about what nobody has said.

#include <filesystem>
#include <gtest/gtest.h>
#include <string>

#include "tests/support/run.h"

namespace {

void expect_in(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << part << "\nis not in\n" << text;
}
void expect_not_in(const std::string& text, const std::string& part) {
  EXPECT_EQ(text.find(part), std::string::npos) << part << "\nis in\n" << text;
}

TEST(UserReports, LayersThatDoNotDivideAreGivenAnEndOfTheirOwn) {
  const std::string layers = "layers --pipeline-model-parallel-size 4 --num-layers ";
  expect_in(test::run(layers + "46").err, "--decoder-last-pipeline-num-layers 10, or --num-layers 44 or 48");
  EXPECT_EQ(test::run(layers + "46 --decoder-last-pipeline-num-layers 10").exit_code, 0);
  // Another number where one end is given; none where two are, or where no number would do.
  expect_in(test::run(layers + "46 --decoder-last-pipeline-num-layers 11").err,
            "--decoder-last-pipeline-num-layers 10, or");
  expect_in(test::run(layers + "46 --decoder-first-pipeline-num-layers 11").err,
            "--decoder-first-pipeline-num-layers 10, or");
  expect_not_in(test::run(layers + "3").err, "--decoder-last-pipeline-num-layers");
  const std::string chunks = layers + "46 --virtual-pipeline-model-parallel-size 2";
  expect_in(test::run(chunks).err, "--decoder-last-pipeline-num-layers 10, or");
  EXPECT_EQ(test::run(chunks + " --decoder-last-pipeline-num-layers 10").exit_code, 0);
  expect_not_in(test::run(layers + "45 --virtual-pipeline-model-parallel-size 2").err, "--decoder-last");
}

TEST(UserReports, ABareLayoutIsNotRefusedForTheBiasOfAModel) {
  const std::string layout =
      "replay --layout-only --world-size 8 --tensor-model-parallel-size 2 --sequence-parallel "
      "--expert-model-parallel-size 2 --num-experts 8";
  const test::RunResult bare = test::run(layout);
  EXPECT_EQ(bare.exit_code, 0) << bare.out << bare.err;
  expect_in(bare.out, "warning  moe_bias_etp");
  expect_not_in(test::run(layout + " --disable-bias-linear").out, "moe_bias_etp");
  expect_not_in(test::run(layout + " --expert-tensor-parallel-size 1").out, "moe_bias_etp");
  const test::RunResult with_model = test::run(layout + " --hidden-size 16 --num-attention-heads 2");
  EXPECT_EQ(with_model.exit_code, 2);
  expect_in(with_model.out, "REFUSED  moe_bias_etp");
}

TEST(UserReports, FlagsOfYarnAreNotWithoutEffect) {
  const std::string model =
      "memory --verbose -- torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 4 --hidden-size 64 "
      "--num-attention-heads 4 --seq-length 32 --max-position-embeddings 32 --micro-batch-size 1 "
      "--vocab-size 256 --yarn-beta-fast 32 --mscale 1.0 --rotary-base 10000 --position-embedding-type ";
  const test::RunResult yarn = test::run(model + "yarn");
  EXPECT_EQ(yarn.exit_code, 0) << yarn.err;
  expect_in(yarn.out, "--yarn-beta-fast 32: the frequencies and the scale of YaRN's positions");
  expect_in(yarn.out, "without effect (1)    rotary-base\n");
  expect_in(test::run(model + "rope").out, "without effect (3)    mscale, rotary-base, yarn-beta-fast\n");
}

/// A model of two layers, of which the first stage has none.
std::string replay_of(const std::string& placement) {
  const test::TemporaryFile scenario(
      "placement.ini",
      "# Source: a test\nworld-size = 2\npipeline-model-parallel-size = 2\nnum-layers = 2\nhidden-size = 16\n"
      "num-attention-heads = 2\nseq-length = 16\nvocab-size = 256\nglobal-batch-size = 4\ntrain-iters = 1\n"
      "pipeline-model-parallel-layout = " +
          placement + "\n");
  const test::RunResult result = test::run("replay " + scenario.path());
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  return result.out;
}

TEST(UserReports, AStageThatMultipliesNothingIsSaidInWords) {
  const std::string empty = replay_of("E|tt||L");
  expect_in(empty, "multiply-adds a rank of stage 1, and none on stage 0");
  expect_not_in(empty, "inf times");
  expect_in(empty, "not trained: the placement of layers, in whose place every stage holds the same number");
}

TEST(UserReports, APlacementThatIsEvenIsFollowed) {
  expect_not_in(replay_of("Et|tL"), "the placement of layers");
}

TEST(UserReports, AnExpressionIsBounded) {
  const test::RunResult result = test::run("inspect . --rank-from " + std::string(1025, 'a'));
  EXPECT_EQ(result.exit_code, 2);
  expect_in(result.err,
            "refused [bad_expression]\n  where  --rank-from\n  given  an expression of 1025 bytes");
}

TEST(UserReports, AFileThatMayGrowNoLargerIsARefusal) {
  const std::string folder = testing::TempDir();
  const test::RunResult limited =
      test::run_process("cd '" + folder +
                        "' && ulimit -f 8 && '" SHARDPROOF_BINARY_DIR
                        "/shardproof' replay --layout-only --world-size 2 --report report.html");
  EXPECT_EQ(limited.exit_code, 2) << limited.out;
  expect_in(limited.out, "refused [report_file]");
  EXPECT_FALSE(std::filesystem::exists(folder + "/report.html"));
}

}  // namespace
