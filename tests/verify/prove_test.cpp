// Proves which words the program of a project with layers of its own takes, what it prints, and its exit
// codes.

#include "verify/prove.h"

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <memory>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "sim/tensor/checks.h"
#include "sim/tensor/ops.h"
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
  std::vector<std::string> planted = words;
  const std::string fault = "sequence_parallel_grads.sum:skip@rank=9";
  planted.insert(planted.end(), {"--plant", fault});
  const test::RunResult unmet = prove(planted);
  EXPECT_EQ(unmet.exit_code, 1);
  EXPECT_EQ(unmet.out,
            "FAILED  nothing that ran has '" + fault + "': no call there has rank=9\n\nfalsified\n");
}

/// A case whose tenth run is interrupted from the keyboard. `is_wrong` makes it fail before.
class InterruptedCase : public verify::CaseOf<InterruptedCase> {
 public:
  explicit InterruptedCase(bool is_wrong) : is_wrong_(is_wrong) {}
  std::string name() const override { return "interrupted"; }
  std::vector<verify::Dimension> dimensions() const override { return {{"hidden", 1, 3}}; }
  std::vector<verify::CaseOutput> outputs(const verify::CaseSetting&) const override { return {{"x"}}; }
  std::vector<verify::ExpectedCall> calls(const verify::CaseSetting&) const override { return {}; }
  void run(sim::Rank& rank, const verify::CaseSetting& s) const override {
    if (rank.id == 0 && ++runs_ == 10) std::raise(SIGINT);
    const sim::Tensor x = verify::drawn(rank, s, "x", {1, s["hidden"]});
    rank.publish("x", is_wrong_ ? sim::scale(x, {2, 1}) : x);
  }
  template <typename Scalar>
  verify::Wholes<Scalar> reference(const verify::Inputs<Scalar>& inputs, const verify::CaseSetting& s) const {
    return {{"x", inputs.matrix("x", 1, s["hidden"])}};
  }

 private:
  bool is_wrong_;
  mutable int runs_ = 0;
};

test::RunResult interrupted(bool is_wrong, const std::vector<std::string>& arguments) {
  verify::CaseList cases;
  cases.push_back(std::make_unique<InterruptedCase>(is_wrong));
  std::ostringstream out, err;
  const int code = verify::prove("./mine", arguments, cases, {out, err});
  return {code, out.str(), err.str()};
}

TEST(Prove, AnInterruptedCheckSaysWhatIsProvenSoFar) {
  const std::vector<std::string> words = {"--property", "agree,calls", "--dtype",   "field",
                                          "--runs",     "50",          "--threads", "1"};
  const test::RunResult result = interrupted(false, words);
  EXPECT_EQ(result.exit_code, 130);
  EXPECT_EQ(result.out,
            "case         property  runs  worst slack  verdict\n"
            "interrupted  agree       10               holds so far\n"
            "interrupted  calls        0               not run\n\n"
            "interrupted: 10 of 100 runs in 2 rows, seed 0; 0 falsified\n");
  std::vector<std::string> as_json = words;
  as_json.insert(as_json.end(), {"--format", "json"});
  const auto document = nlohmann::ordered_json::parse(interrupted(false, as_json).out);
  EXPECT_EQ(document["verdict"], "interrupted");
  EXPECT_EQ(document["interrupted"], true);
  EXPECT_EQ(document["runs"], 10);
  EXPECT_EQ(document["rows"][0]["holds"], true);
  EXPECT_TRUE(document["rows"][1]["holds"].is_null());
}

TEST(Prove, AFailureBeforeAnInterruptIsAVerdict) {
  const test::RunResult result =
      interrupted(true, {"--property", "calls,serial", "--dtype", "field", "--runs", "9", "--threads", "1"});
  EXPECT_EQ(result.exit_code, 1) << result.out;
  EXPECT_NE(result.out.find("FALSIFIED"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("\nfalsified: 3 of 18 runs in 2 rows, seed 0; 1 falsified, then interrupted\n"),
            std::string::npos)
      << result.out;
  const std::filesystem::path scenario =
      result.out.substr(result.out.find("failing-interrupted-serial-"), 39);
  EXPECT_TRUE(std::filesystem::remove(scenario)) << scenario;
}

/// Returns what an interrupt does. A shell starts commands in the background with interrupts ignored.
auto handler_of_interrupts() {
  struct sigaction now = {};
  sigaction(SIGINT, nullptr, &now);
  return now.sa_handler;
}

TEST(Prove, AnInterruptAfterACheckIsNotKept) {
  const auto before = handler_of_interrupts();
  interrupted(false, {"--property", "agree", "--dtype", "field", "--runs", "20", "--threads", "1"});
  EXPECT_EQ(handler_of_interrupts(), before);
}

/// Sums over a data-parallel group, and expects its call without a group of its own.
class SumOfReplicas : public verify::CaseOf<SumOfReplicas> {
 public:
  enum class Mistake { nothing, reference_throws, calls_throw, reference_crashes, too_large };
  explicit SumOfReplicas(Mistake mistake) : mistake_(mistake) {}
  std::string name() const override { return "sum_of_replicas"; }
  verify::Ranks ranks() const override { return verify::Ranks::data_parallel; }
  std::vector<verify::Dimension> dimensions() const override {
    if (mistake_ == Mistake::too_large) return {{"size", 999'999, 999'999}};
    return {{"size", 1, 4}};
  }
  std::vector<verify::CaseOutput> outputs(const verify::CaseSetting&) const override { return {{"grad"}}; }
  std::vector<verify::ExpectedCall> calls(const verify::CaseSetting& s) const override {
    if (mistake_ == Mistake::calls_throw) throw std::runtime_error("in calls()");
    return {{"sum", sim::Operation::all_reduce, s["size"], true}};
  }
  void run(sim::Rank& rank, const verify::CaseSetting& s) const override {
    sim::Communicator& dp = rank.groups.get("dp");
    const std::int64_t rows = mistake_ == Mistake::too_large ? s["size"] : 1;
    const sim::Tensor grad =
        sim::cast(verify::drawn(rank, s, "own", {rows, s["size"]}), sim::sum_dtype(s.dtype));
    if (dp.size() > 1) dp.all_reduce(grad, sim::ReduceOp::sum, "sum");
    rank.publish("grad", grad);
  }
  template <typename Scalar>
  verify::Wholes<Scalar> reference(const verify::Inputs<Scalar>& in, const verify::CaseSetting& s) const {
    if (mistake_ == Mistake::reference_throws) throw std::runtime_error(std::string(100'000, 'x'));
    if (mistake_ == Mistake::reference_crashes) std::raise(SIGSEGV);
    const auto own = in.matrix("own", 1, s["size"]);
    return {
        {"grad", verify::reference::matrix_of(in.number(), 1, s["size"], [&](Eigen::Index, Eigen::Index j) {
           verify::reference::Sum<Scalar> sum;
           for (int r = 0; r < s.group_size; ++r) sum.add(own(0, j));
           return sum.value_in_parts();
         })}};
  }

 private:
  Mistake mistake_;
};

test::RunResult prove_sum(SumOfReplicas::Mistake mistake, const std::vector<std::string>& arguments) {
  verify::CaseList cases;
  cases.push_back(std::make_unique<SumOfReplicas>(mistake));
  std::ostringstream out, err;
  const int code = verify::prove("./mine", arguments, cases, {out, err});
  return {code, out.str(), err.str()};
}

TEST(Prove, AnExpectedCallWithoutAGroupIsOneOfTheCasesRanks) {
  const test::RunResult result = prove_sum(SumOfReplicas::Mistake::nothing, {"--runs", "20"});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
}

/// Returns the scenario with which a failure is reproduced; "" if none is named.
std::string scenario_of(const test::RunResult& result) {
  std::smatch found;
  const std::regex line("  reproduce  ./mine replay (failing-[^ ]+[.]ini)\n");
  return std::regex_search(result.out, found, line) ? found.str(1) : "";
}

TEST(Prove, AnInputThatWouldNotFitIsNamed) {
  const test::RunResult result = prove_sum(SumOfReplicas::Mistake::too_large, {"--property", "agree"});
  EXPECT_EQ(result.exit_code, 3) << result.err;
  EXPECT_NE(result.out.find("case_declaration: rank 0: dimensions(): input 'own' is"), std::string::npos)
      << result.out;
  std::filesystem::remove(scenario_of(result));
}

TEST(Prove, WhatACaseThrowsHasOneExitCode) {
  using enum SumOfReplicas::Mistake;
  for (const auto& [mistake, property] :
       {std::pair(reference_throws, "serial"), std::pair(calls_throw, "calls")}) {
    const test::RunResult checked = prove_sum(mistake, {"--property", property, "--dtype", "field"});
    EXPECT_EQ(checked.exit_code, 1) << checked.err;
    const std::string path = scenario_of(checked);
    ASSERT_NE(path, "") << checked.out.substr(0, 300);
    EXPECT_LT(std::filesystem::file_size(path), std::size_t{66} << 10);
    const test::RunResult replayed = prove_sum(mistake, {"replay", path});
    EXPECT_EQ(replayed.exit_code, 1) << replayed.err;
    EXPECT_NE(replayed.out.find(": the case threw: "), std::string::npos) << replayed.out;
    std::filesystem::remove(path);
  }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(ProveDeathTest, AReferenceThatCrashesIsNamed) {
  const auto check = [] {
    prove_sum(SumOfReplicas::Mistake::reference_crashes, {"--property", "serial", "--threads", "1"});
  };
  EXPECT_EXIT(check(), testing::ExitedWithCode(3),
              "work_crashed: the reference of sum_of_replicas at dp [0-9]+, .* received SIGSEGV");
}
#endif

TEST(Prove, AFailureIsWrittenWholeAndFollowsNoLink) {
  const std::vector<std::string> words = {"--property", "serial", "--dtype", "field"};
  const std::string path = scenario_of(prove_sum(SumOfReplicas::Mistake::reference_throws, words));
  ASSERT_NE(path, "");
  std::filesystem::remove(path);
  const std::string other = "another-file.txt";
  std::ofstream(other) << "kept";
  std::filesystem::create_symlink(other, path);
  prove_sum(SumOfReplicas::Mistake::reference_throws, words);
  EXPECT_EQ(std::filesystem::file_size(other), 4U);
  EXPECT_TRUE(std::filesystem::is_regular_file(std::filesystem::symlink_status(path)));
  std::filesystem::remove(path);
  std::filesystem::remove(other);
  // A pipe would wait for a reader; the line that reproduces the failure then has its options.
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const test::RunResult result = prove_sum(SumOfReplicas::Mistake::reference_throws, words);
  EXPECT_TRUE(std::filesystem::is_fifo(path));
  EXPECT_NE(result.out.find("  reproduce  ./mine replay --"), std::string::npos) << result.out.substr(0, 300);
  std::filesystem::remove(path);
}

TEST(Prove, HelpNamesItsCases) {
  const test::RunResult result = prove({"--help"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_NE(result.out.find("\nusage: ./mine --fast COMMAND "), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("cases: mlp parallel_norm\n"), std::string::npos) << result.out;
  EXPECT_EQ(prove({"check", "--help"}).out.find("usage: ./mine --fast check [--option VALUE]...\n"), 0U);
  EXPECT_NE(prove({"chek"}).err.find("  try    ./mine --fast check, or see ./mine --fast --help\n"),
            std::string::npos);
  EXPECT_NE(prove({"check", "--run", "3"}).err.find("  try    --runs, or see ./mine --fast check --help\n"),
            std::string::npos);
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

/// check and replay report a broken contract in the words of a replay of a program, and exit with 3.
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
    EXPECT_EQ(result.err.find("./mine --fast: refused [" + code + "]"), 0U) << result.err;
    EXPECT_EQ(result.err.find("shardproof "), std::string::npos) << result.err;
  };
  refused({"replay", "no-such.ini"}, "scenario_missing");
  refused({"--no-such-option-at-all"}, "unknown_option");
  refused({"groups"}, "unknown_command");
  refused({"--case", "column_parallel_linear"}, "unknown_case");
  refused({"--kind", "tp"}, "option_without_effect");
  refused({"--world-size", "4"}, "option_without_effect");
  refused({"replay", "--runs", "4"}, "option_without_effect");
  refused({"replay"}, "bad_dimensions");
  refused({"check", "a.ini"}, "one_scenario");
  refused({"exam", "--", "python3", "train.py"}, "option_without_effect");
  refused({"--planted"}, "unknown_option");
}

TEST(Prove, ACatalogueIsTheFilesThatAreGiven) {
  const test::TemporaryFile bugs("bugs.ini",
                                 "# Source: this test\n[row: sum left out]\ncase = mlp\nproperty = serial\n"
                                 "fault = row_parallel_linear.forward:skip\n"
                                 "names = row_parallel_linear.forward\n");
  const test::RunResult caught = prove({"exam", "--catalogue", bugs.path()});
  EXPECT_EQ(caught.exit_code, 0) << caught.out << caught.err;
  EXPECT_NE(caught.out.find("verified: 1 bug, 1 caught by the expected property, 0 unnamed, 0 missed"),
            std::string::npos)
      << caught.out;
  const test::RunResult none = prove({"exam", "--catalogue"});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_EQ(none.err.find("./mine --fast: refused [nothing_in_catalogue]"), 0U) << none.err;
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
              "rank_crashed: rank 0 received SIGABRT" + last_call);
#endif
}

}  // namespace
