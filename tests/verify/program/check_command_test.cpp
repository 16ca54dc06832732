// Proves the command check, and the replay of one setting, through the program itself.

#include <algorithm>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

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
  EXPECT_NE(
      result.out.find("\nplant: nothing that ran has 'row_parallel_linear.forward:scale=2@call=99': no rank "
                      "makes a call there that is number 99, from 0\n\n"
                      "falsified: 4 runs in 1 row, seed 0; 0 falsified, 1 fault not met\n"),
      std::string::npos)
      << result.out;
  const auto document = nlohmann::ordered_json::parse(test::run(words + " --format json").out);
  EXPECT_EQ(document["unmet_faults"],
            nlohmann::ordered_json::array({"row_parallel_linear.forward:scale=2@call=99"}));
}

/// A refusal has no room for all sites: it names as many as it can, whole, and the command that lists all.
TEST(Check, SitesAreListedAndARefusalNamesTheCommandThatListsThem) {
  const std::string cases = "--case distributed_optimizer,gpt_training";
  const std::string refused = test::run("check " + cases + " --plant optimizer.gather_param:skip").err;
  const std::string begins = "  rule   the sites are ";
  const std::size_t at = refused.find(begins);
  ASSERT_NE(at, std::string::npos) << refused;
  const std::string rule = refused.substr(at + begins.size(), refused.find('\n', at) - at - begins.size());
  EXPECT_EQ(rule.find("..."), std::string::npos) << rule;
  const std::string named = rule.substr(0, rule.find(" and "));
  const std::string ends = " more, which check --sites lists";
  ASSERT_TRUE(rule.ends_with(ends)) << rule;
  const std::string more = rule.substr(named.size() + 5, rule.size() - named.size() - 5 - ends.size());

  const auto rows =
      nlohmann::ordered_json::parse(test::run("check " + cases + " --sites --format json").out)["sites"];
  std::vector<std::string> calls;
  for (const auto& row : rows) {
    if (!row["operations"].empty()) calls.push_back(row["site"]);
  }
  EXPECT_EQ(named.find(calls.front() + ", "), 0U) << named;
  EXPECT_EQ(std::to_string(std::ssize(calls) - 1 - std::count(named.begin(), named.end(), ',')), more);
  const std::string table = test::run("check " + cases + " --sites").out;
  for (const char* line : {"\noptimizer.gather_params ", "\ndevice.matmul\n", "\ntensor.updates\n"})
    EXPECT_NE(table.find(line), std::string::npos) << table;
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
