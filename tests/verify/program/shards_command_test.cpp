// Proves that the command shards takes the shape of a model, and lays out the parameters of a GPT in the
// order of the model.

#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/support/run.h"

namespace {

using nlohmann::ordered_json;

constexpr const char* kShape =
    "--num-layers 2 --hidden-size 8 --num-attention-heads 2 --vocab-size 100 --seq-length 16 ";

std::string shown(const std::string& options) {
  const test::RunResult result = test::run("shards " + options + " --format json");
  EXPECT_EQ(result.exit_code, 0) << options << result.err;
  return result.out;
}

// One layer: norm, QKV, output, norm, MLP up and down, each a weight and a bias.
TEST(Shards, AShapeIsTheListOfItsParameters) {
  const std::string layer = "8,8,192,24,64,8,8,8,256,32,256,8,";
  const std::string sizes = "1024,128," + layer + layer + "8,8";  // 100 words are padded to 128
  EXPECT_EQ(shown(kShape), shown("--param-sizes " + sizes));
  const std::string cut = " --data-parallel-size 3 --bucket-size 500";
  EXPECT_EQ(shown(kShape + cut), shown("--param-sizes " + sizes + cut));
}

TEST(Shards, ATensorParallelRankHoldsItsPartOfTheMatrices) {
  const std::string layer = "8,8,96,12,32,8,8,8,128,16,128,8,";
  EXPECT_EQ(shown(std::string(kShape) + "--tensor-model-parallel-size 2"),
            shown("--param-sizes 1024,128," + layer + layer + "8,8"));  // words are padded to 256
}

TEST(Shards, KindsOfModelsDiffer) {
  EXPECT_EQ(shown(std::string(kShape) + "--disable-bias-linear --normalization RMSNorm --swiglu "
                                        "--ffn-hidden-size 64 --position-embedding-type rope "
                                        "--num-query-groups 1 --untie-embeddings-and-output-weights"),
            shown("--param-sizes 1024,8,128,64,8,1024,512,8,128,64,8,1024,512,8,1024"));
}

TEST(Shards, AScenarioGivesItsModel) {
  const ordered_json document =
      ordered_json::parse(shown("scenarios/published/narayanan-2021-1p7b.ini --data-parallel-size 32"));
  EXPECT_EQ(document["param_index"].size(), 24U * 12 + 4);
}

TEST(ShardsPage, DrawsBucketsAndOwners) {
  const test::TemporaryFile page("shards.html", "");
  const test::RunResult result = test::run(
      "shards --param-sizes 70,50,200 --data-parallel-size 4 --bucket-size 150 --report " + page.path());
  EXPECT_EQ(result.exit_code, 0) << result.err;
  std::ostringstream text;
  text << std::ifstream(page.path()).rdbuf();
  const std::string html = text.str();
  EXPECT_NE(html.find("Bucket 1: elements 256 to 512, 122 of padding"), std::string::npos) << html;
  EXPECT_NE(html.find("<title>2: elements 0 to 200</title>"), std::string::npos);
  EXPECT_NE(html.find("<title>rank 3 owns elements 448 to 512</title>"), std::string::npos);
}

}  // namespace
