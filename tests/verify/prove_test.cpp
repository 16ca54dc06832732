// Proves which words the program of a project with layers of its own takes, what it prints, and its exit
// codes.

#include "verify/prove.h"

#include <cstdlib>
#include <gtest/gtest.h>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <unistd.h>
#include <utility>

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

/// A layer that makes one call and then does something in the place of a result.
class EndingCase : public verify::CaseOf<EndingCase> {
 public:
  explicit EndingCase(void (*end)()) : end_(end) {}
  std::string name() const override { return "ending"; }
  std::vector<verify::Dimension> dimensions() const override { return {{"tokens", 1, 4}}; }
  std::vector<verify::CaseOutput> outputs(const verify::CaseSetting&) const override { return {{"y"}}; }
  std::vector<verify::ExpectedCall> calls(const verify::CaseSetting&) const override { return {}; }
  void run(sim::Rank& rank, const verify::CaseSetting&) const override {
    rank.groups.get("tp").barrier("ending.barrier");
    end_();
  }
  template <typename Scalar>
  verify::Wholes<Scalar> reference(const verify::Inputs<Scalar>&, const verify::CaseSetting&) const {
    return {};
  }

 private:
  void (*end_)();
};

int prove_ending(void (*end)()) {
  verify::CaseList cases;
  cases.push_back(std::make_unique<EndingCase>(end));
  std::ostringstream out;
  return verify::prove("./mine", {"--runs", "3"}, cases, {out, out});
}

// A build server reads the exit code: one that a layer chose is not a verdict.
TEST(ProveDeathTest, ALayerThatEndsTheProcessIsNoVerdict) {
  const std::string last_call =
      "(.|\n)*made as its last call barrier, call 0 of tp\\[0\\], at 'ending.barrier'";
  EXPECT_EXIT(prove_ending([] { std::exit(0); }), testing::ExitedWithCode(3),
              "rank_exited: rank 0 called exit\\(\\)" + last_call);
#ifndef SHARDPROOF_SANITIZED
  EXPECT_EXIT(prove_ending([] { _exit(0); }), testing::ExitedWithCode(3),
              "rank_exited: rank 0 called _exit\\(\\)" + last_call);
  EXPECT_EXIT(prove_ending([] { std::abort(); }), testing::ExitedWithCode(3),
              "rank_crashed: rank 0 came to SIGABRT" + last_call);
#endif
}

}  // namespace
