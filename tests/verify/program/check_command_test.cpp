// Proves the command check, and the replay of one setting, through the program itself.

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/run.h"
#include "verify/cases/case.h"
#include "verify/cases/case_list.h"
#include "verify/output/progress.h"

namespace {

using verify::all_cases;

TEST(Check, RunsEveryCaseAndPropertyAndSaysSo) {
  const test::RunResult result = test::run("check --runs 5 --format json");
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  const auto document = nlohmann::ordered_json::parse(result.out);
  EXPECT_EQ(document["verdict"], "verified");
  EXPECT_GT(document["rows"].size(), 5 * all_cases().size());
  EXPECT_EQ(document["runs"], 5 * document["rows"].size());
  EXPECT_EQ(result.out, test::run("check --runs 5 --format json").out);
}

TEST(Check, TakesTheCasesAskedFor) {
  const test::RunResult result = test::run(
      "check --runs 3 --case parallel_norm,all_to_all_sp2hp --property serial --dtype field --max-world 2");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_NE(result.out.find("verified: 6 runs in 2 rows, seed 0; 0 falsified"), std::string::npos)
      << result.out;
}

TEST(Check, TheTableIsTheSameForAnyNumberOfThreads) {
  const std::string words = "check --runs 6 --property serial,calls,special --format json --threads ";
  const test::RunResult one = test::run(words + "1");
  EXPECT_EQ(one.exit_code, 0) << one.out;
  for (const char* threads : {"2", "5", "1000000"}) EXPECT_EQ(test::run(words + threads).out, one.out);
}

TEST(Check, APlantedFaultThatNothingHadIsAFailure) {
  const std::string words =
      "check --runs 4 --case mlp --property serial --plant row_parallel_linear.forward:scale=2@call=99";
  const test::RunResult result = test::run(words);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.out.find("\nplant: nothing that ran has 'row_parallel_linear.forward:scale=2@call=99'\n\n"
                            "falsified: 4 runs in 1 row, seed 0; 0 falsified, 1 fault not met\n"),
            std::string::npos)
      << result.out;
  const auto document = nlohmann::ordered_json::parse(test::run(words + " --format json").out);
  EXPECT_EQ(document["unmet_faults"],
            nlohmann::ordered_json::array({"row_parallel_linear.forward:scale=2@call=99"}));
}

TEST(Check, RatesHaveFewDigitsAndNoExponent) {
  EXPECT_EQ(verify::text_of_rate(0.25), "0.25");
  EXPECT_EQ(verify::text_of_rate(7.31), "7.3");
  EXPECT_EQ(verify::text_of_rate(9.99), "10");
  EXPECT_EQ(verify::text_of_rate(110.2), "110");
  EXPECT_EQ(verify::text_of_rate(42000), "42000");
}

TEST(Check, OneSettingIsReplayed) {
  const test::RunResult result = test::run(
      "replay --world-size 2 --tensor-model-parallel-size 2 --case parallel_norm --property serial --dtype "
      "f32 "
      "--dimensions tokens=2,hidden=3,layer_norm=1,sequence_parallel=1");
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_NE(result.out.find("parallel_norm serial, tp 2, f32, seed 0, hidden 3"), std::string::npos)
      << result.out;
}

}  // namespace
