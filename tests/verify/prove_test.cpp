// Proves which words the program of a project with layers of its own takes, what it prints, and its exit
// codes.

#include "verify/prove.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/support/run.h"
#include "verify/cases/case_inputs.h"
#include "verify/cases/case_list.h"

namespace {

/// Runs it with two cases, under the name "./mine --fast".
test::RunResult prove(const std::vector<std::string>& arguments) {
  verify::CaseList cases;
  cases.push_back(verify::mlp_case());
  cases.push_back(verify::parallel_norm_case());
  std::ostringstream out, err;
  const int code = verify::prove("./mine --fast", arguments, cases, {out, err});
  return {code, out.str(), err.str()};
}

TEST(Prove, ChecksItsOwnCasesAndNoOthers) {
  for (const std::string command : {"", "check"}) {
    std::vector<std::string> words = {"--runs", "3", "--property", "serial,calls", "--format", "json"};
    if (!command.empty()) words.insert(words.begin(), command);
    const test::RunResult result = prove(words);
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    const auto document = nlohmann::ordered_json::parse(result.out);
    EXPECT_EQ(document["verdict"], "verified");
    ASSERT_EQ(document["rows"].size(), 4U);
    EXPECT_EQ(document["rows"][0]["case"], "mlp");
    EXPECT_EQ(document["rows"][3]["case"], "parallel_norm");
  }
}

TEST(Prove, ReplaysOneSetting) {
  const std::vector<std::string> words = {"replay",
                                          "--world-size",
                                          "2",
                                          "--tensor-model-parallel-size",
                                          "2",
                                          "--case",
                                          "parallel_norm",
                                          "--property",
                                          "serial",
                                          "--dtype",
                                          "f32",
                                          "--dimensions",
                                          "tokens=2,hidden=3,layer_norm=1,sequence_parallel=1"};
  const test::RunResult result = prove(words);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out.find("ok  parallel_norm serial, tp 2, f32, seed 0, hidden 3"), 0U) << result.out;
}

TEST(Prove, HelpNamesItsCases) {
  const test::RunResult result = prove({"--help"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out.find("usage: ./mine --fast [check] [--options]\n"), 0U) << result.out;
  EXPECT_NE(result.out.find("cases: mlp parallel_norm\n"), std::string::npos) << result.out;
}

/// A layer one rank of which makes a call of its own.
class LonelyCase : public verify::CaseOf<LonelyCase> {
 public:
  std::string name() const override { return "lonely"; }
  std::vector<verify::Dimension> dimensions() const override { return {{"tokens", 1, 3}}; }
  std::vector<verify::CaseOutput> outputs(const verify::CaseSetting&) const override { return {{"y"}}; }
  std::vector<verify::ExpectedCall> calls(const verify::CaseSetting&) const override { return {}; }
  void run(sim::Rank& rank, const verify::CaseSetting& s) const override {
    if (rank.id == 1) rank.groups.get("tp").barrier("lonely.barrier");
    rank.publish("y", verify::drawn(rank, s, "y", {s["tokens"], 1}));
  }
  template <typename Scalar>
  verify::Wholes<Scalar> reference(const verify::Inputs<Scalar>& inputs, const verify::CaseSetting& s) const {
    return {{"y", inputs.matrix("y", s["tokens"], 1)}};
  }
};

/// check and replay say of a broken contract what a replay of a program says, and exit with 3.
TEST(Prove, ABrokenContractIsToldInFull) {
  verify::CaseList cases;
  cases.push_back(std::make_unique<LonelyCase>());
  const auto run = [&](const std::vector<std::string>& words) {
    std::ostringstream out, err;
    const int code = verify::prove("./mine", words, cases, {out, err});
    return test::RunResult{code, out.str(), err.str()};
  };
  const std::vector<std::string> setting = {"--world-size",
                                            "2",
                                            "--tensor-model-parallel-size",
                                            "2",
                                            "--case",
                                            "lonely",
                                            "--property",
                                            "calls",
                                            "--dtype",
                                            "field",
                                            "--dimensions",
                                            "tokens=1"};
  std::vector<std::string> replay = {"replay"}, check = {"check", "--property", "calls", "--dtype", "field"};
  replay.insert(replay.end(), setting.begin(), setting.end());
  for (const auto& words : {check, replay}) {
    const test::RunResult result = run(words);
    EXPECT_EQ(result.exit_code, 3) << result.out << result.err;
    for (const char* told : {"missing_ranks: ", "at 'lonely.barrier' (tests/verify/prove_test.cpp:",
                             "  rule  ", "  try  ", "\nbroken"})
      EXPECT_NE(result.out.find(told), std::string::npos) << told << "\n" << result.out;
  }
  check.insert(check.end(), {"--format", "json"});
  const test::RunResult json = run(check);
  EXPECT_EQ(json.exit_code, 3);
  const auto document = nlohmann::ordered_json::parse(json.out);
  EXPECT_EQ(document["verdict"], "broken");
  EXPECT_EQ(document["rows"][0]["finding"]["code"], "missing_ranks");
}

TEST(Prove, RefusesWhatItDoesNotRead) {
  const auto refused = [](const std::vector<std::string>& words, const std::string& code) {
    const test::RunResult result = prove(words);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_EQ(result.err.find("shardproof: refused [" + code + "]"), 0U) << result.err;
  };
  refused({"groups"}, "unknown_command");
  refused({"--case", "column_parallel_linear"}, "unknown_case");
  refused({"--kind", "tp"}, "option_without_effect");
  refused({"--world-size", "4"}, "option_without_effect");
  refused({"replay", "--runs", "4"}, "option_without_effect");
  refused({"replay"}, "bad_dimensions");
  refused({"check", "a.ini"}, "one_scenario");
  refused({"--planted"}, "unknown_option");
}

}  // namespace
