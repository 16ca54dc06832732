// Proves with real processes under mpirun that they compute, bit for bit, what virtual ranks compute,
// and that a defect planted in one process is found, named, and ends all processes.

#include "tests/support/mpi.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/contains.h"
#include "tests/support/run.h"

namespace {

using test::contains;

/// Runs a program of this build under mpirun.
test::RunResult run_under_mpi(int processes, const std::string& command, int most_seconds = 300) {
  return test::run_under_mpi(processes, std::string("'") + SHARDPROOF_BINARY_DIR + "'/" + command,
                             most_seconds);
}

class Mpi : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = test::no_processes(); !why.empty()) GTEST_SKIP() << why;
  }
};

void expect_equal(const test::RunResult& result) {
  EXPECT_EQ(result.exit_code, 0) << result.out;
  EXPECT_FALSE(contains(result.out, "simulated")) << result.out;
}

TEST_F(Mpi, RandomProgramsPublishWhatVirtualRanksPublish) {
  for (const auto& [processes, seed] :
       std::vector<std::pair<int, int>>{{1, 1}, {2, 1}, {2, 2}, {3, 3}, {4, 4}, {4, 5}, {8, 6}}) {
    const test::RunResult result =
        run_under_mpi(processes, "mpi_ranks equal " + std::to_string(seed) + " 200");
    SCOPED_TRACE("processes " + std::to_string(processes) + ", seed " + std::to_string(seed));
    expect_equal(result);
    EXPECT_TRUE(contains(result.out, " calls of rank 0")) << result.out;
  }
}

TEST_F(Mpi, TrainingWithExpertsIsThatOfVirtualRanks) {
  for (const char* mode : {"experts-allgather", "experts-alltoall", "experts-flex"}) {
    for (const int processes : {2, 4, 8}) {
      SCOPED_TRACE(std::string(mode) + " on " + std::to_string(processes));
      expect_equal(run_under_mpi(processes, std::string("mpi_ranks ") + mode));
    }
  }
}

TEST_F(Mpi, TrainingWithContextParallelismIsThatOfVirtualRanks) {
  for (const auto& [processes, mode] : std::vector<std::pair<int, std::string>>{
           {8, "context-p2p"}, {4, "context-all_gather"}, {4, "context-a2a"}, {8, "context-a2a+p2p"}}) {
    SCOPED_TRACE(mode + " on " + std::to_string(processes));
    expect_equal(run_under_mpi(processes, "mpi_ranks " + mode));
  }
}

void expect_broken(const std::string& mode, const std::string& said) {
  const test::RunResult result = run_under_mpi(4, "mpi_ranks " + mode);
  EXPECT_EQ(result.exit_code, 3) << mode << "\n" << result.out;
  EXPECT_TRUE(contains(result.out, said)) << mode << "\n" << result.out;
}

TEST_F(Mpi, AWrongFoldOrderIsFound) {
  const test::RunResult result = run_under_mpi(4, "mpi_ranks order 4");
  EXPECT_EQ(result.exit_code, 1) << result.out;
  EXPECT_TRUE(contains(result.out, ", element ")) << result.out;
}

TEST_F(Mpi, ADamagedLetterIsFound) {
  const test::RunResult result = run_under_mpi(4, "mpi_ranks damaged 4");
  EXPECT_EQ(result.exit_code, 1) << result.out;
  EXPECT_TRUE(contains(result.out, ", element ")) << result.out;
}

TEST_F(Mpi, ALetterToTheWrongRankIsFound) {
  const test::RunResult result = run_under_mpi(4, "mpi_ranks misdirected 4");
  EXPECT_EQ(result.exit_code, 3) << result.out;
  EXPECT_TRUE(contains(result.out, "letter_astray")) << result.out;
  EXPECT_TRUE(contains(result.out, "of rank 1 for rank ")) << result.out;
}

TEST_F(Mpi, ARankThatHangsIsNamedWithTheCallThatWaits) {
  const test::RunResult result = run_under_mpi(4, "mpi_ranks hangs");
  EXPECT_EQ(result.exit_code, 3) << result.out;
  EXPECT_TRUE(contains(result.out, "rank_silent")) << result.out;
  EXPECT_TRUE(contains(result.out, "in call 1 of world[0] = {0, 1, 2, 3}, all_reduce 'defect.sum' (tests/"))
      << result.out;
  EXPECT_TRUE(contains(result.out, "waited 6 s for rank 1\n")) << result.out;
}

// Calls of MPI that have no deadline of their own are watched. The stopped rank may report it too,
// because a launcher wakes the processes it kills.
TEST_F(Mpi, ARankThatStopsWhileMpiStartsOrEndsEndsTheOthers) {
  for (const auto& [mode, where] : std::vector<std::pair<const char*, const char*>>{
           {"unstarted", "in the start of MPI\n"}, {"unended", "in the end of MPI\n"}}) {
    const test::RunResult result = run_under_mpi(4, std::string("mpi_ranks ") + mode);
    EXPECT_EQ(result.exit_code, 3) << mode << "\n" << result.out;
    EXPECT_TRUE(contains(result.out, std::string("process_silent") + ": rank ") &&
                contains(result.out, where))
        << mode << "\n"
        << result.out;
  }
}

TEST_F(Mpi, AKilledRankEndsTheOthers) {
  const test::RunResult result = run_under_mpi(4, "mpi_ranks killed");
  EXPECT_NE(result.exit_code, 0) << result.out;
  EXPECT_NE(result.exit_code, 124) << "it had to be stopped\n" << result.out;
  EXPECT_TRUE(contains(result.out, "signal 9")) << result.out;
  EXPECT_TRUE(test::is_hydra() || contains(result.out, "rank 1 ")) << result.out;
}

TEST_F(Mpi, WhatAProgramDoesWrongIsNamed) {
  expect_broken("leaves", "left_early");
  expect_broken("throws", "rank 1: rank_threw: an exception left the program: planted");
  expect_broken("forgets", "rank 1: pending_work");
  expect_broken("sends 1", "unmatched_send");  // the send is eager, so nobody waits
  expect_broken("sends 2", "send 'defect.send'");
  expect_broken("kind", "collective_type_mismatch");
  expect_broken("count", "size_or_syntax_mismatch");
  expect_broken("dtype", "collective_dtype_mismatch");
  expect_broken("reduction", "reduction_mismatch");
}

TEST_F(Mpi, ARankThatCatchesItsOwnRefusalsWithoutEndIsNamed) {
  expect_broken(
      "refused",
      "rank 1: rank_will_not_end: it catches refusals and goes on, the latest of null_tensor: world[0]");
}

// The ranks that only heard of the refusal of another one speak after it.
TEST_F(Mpi, TheRankThatHasAReasonSpeaksFirst) {
  const test::RunResult result = run_under_mpi(4, "mpi_ranks elsewhere");
  EXPECT_EQ(result.exit_code, 3) << result.out;
  const std::size_t reason = result.out.find("rank 1: planted_reason");
  const std::size_t elsewhere = result.out.find("planted_elsewhere");
  ASSERT_NE(reason, std::string::npos) << result.out;
  ASSERT_NE(elsewhere, std::string::npos) << result.out;
  EXPECT_LT(reason, elsewhere) << result.out;
}

TEST_F(Mpi, WorldsThatAreNoneDoNotStart) {
  constexpr int kEnough = 30;  // seconds, enough for processes that leave by themselves
  const test::RunResult absent = run_under_mpi(4, "mpi_ranks absent", test::is_hydra() ? kEnough : 300);
  EXPECT_NE(absent.exit_code, 0);
  EXPECT_TRUE(contains(absent.out, "rendezvous_missing") && contains(absent.out, "rank 1")) << absent.out;
  const test::RunResult other = run_under_mpi(4, "mpi_ranks configuration");
  EXPECT_EQ(other.exit_code, 2) << other.out;
  EXPECT_TRUE(contains(other.out, "rendezvous_configuration")) << other.out;
  const test::RunResult swapped = run_under_mpi(2, "mpi_ranks swapped");
  EXPECT_NE(swapped.exit_code, 0);
  EXPECT_TRUE(contains(swapped.out, "launch_contradiction")) << swapped.out;
}

// ---- The program ----

constexpr const char* kSmall = "shardproof replay scenarios/training/train_tp2_pp2_dp2.ini --backend mpi";

TEST_F(Mpi, ReplayIsEqualOnTwoFourAndEightProcesses) {
  const std::string four = std::string(kSmall) + " --world-size 4 --global-batch-size 4";
  const std::string two = std::string(kSmall) +
                          " --world-size 2 --pipeline-model-parallel-size 1 --global-batch-size 4 "
                          "--reduction-order nccl_ring";
  std::vector<std::pair<int, std::string>> runs = {{2, two}, {4, four}, {8, kSmall}};
#ifdef SHARDPROOF_SANITIZED
  runs.resize(1);  // every process proves the scenario, which is thirty times slower
#endif
  for (const auto& [processes, command] : runs) {
    const test::RunResult result = run_under_mpi(processes, command);
    SCOPED_TRACE(command);
    EXPECT_EQ(result.exit_code, 0) << result.out;
    for (const char* row : {"ok  mpi collectives", "ok  mpi training f32", "ok  mpi training field",
                            "ok  mpi bandwidth", "wrong elements    : 0"})
      EXPECT_TRUE(contains(result.out, row)) << result.out;
  }
}

TEST_F(Mpi, ReplaySaysInJsonWhatItSaysInWords) {
  const test::RunResult result =
      run_under_mpi(2, "shardproof replay --world-size 2 --backend mpi --train-iters 0 --format json");
  EXPECT_EQ(result.exit_code, 0) << result.out;
  const auto document = nlohmann::json::parse(
      result.out.substr(std::min(result.out.find("{\"verdict"), result.out.size())), nullptr, false);
  ASSERT_TRUE(document.is_object()) << result.out;
  const auto& scenario = document["scenarios"][0];
  for (const char* row : {"partition", "mpi collectives", "mpi bandwidth"})
    EXPECT_TRUE(contains(scenario["checks"].dump(), std::string("\"") + row + "\"")) << row << "\n"
                                                                                     << result.out;
  ASSERT_TRUE(scenario.contains("bandwidth")) << result.out;
  EXPECT_EQ(scenario["bandwidth"]["wrong"], 0) << result.out;
}

TEST_F(Mpi, CheckIsEqualOnTwoFourAndEightProcesses) {
  for (const int processes : {2, 4, 8}) {
    const test::RunResult result = run_under_mpi(processes, "shardproof check --backend mpi --runs 2");
    EXPECT_EQ(result.exit_code, 0) << result.out;
    EXPECT_TRUE(contains(result.out, "verified: 66 runs in 33 rows on " + std::to_string(processes) +
                                         " processes, seed 0; 0 falsified"))
        << result.out;
  }
}

TEST_F(Mpi, AReadyRunNamesItsBackend) {
#ifdef SHARDPROOF_SANITIZED
  GTEST_SKIP() << "eight processes that prove a scenario; nothing but its name is new here";
#endif
  const test::RunResult result =
      run_under_mpi(8, "shardproof replay scenarios/cluster/mpi-8-processes.ini --message-bytes 64");
  EXPECT_EQ(result.exit_code, 0) << result.out;
  EXPECT_TRUE(contains(result.out, "from Open MPI") && contains(result.out, "ok  mpi training field"))
      << result.out;
}

TEST_F(Mpi, ReplayRefusesAWorldOfAnotherSize) {
  const test::RunResult result = run_under_mpi(2, kSmall);
  EXPECT_EQ(result.exit_code, 2) << result.out;
  EXPECT_TRUE(contains(result.out, "backend_world") && contains(result.out, "8 ranks") &&
              contains(result.out, "2 processes"))
      << result.out;
}

TEST(MpiAbsent, IsRefusedByName) {
  const test::RunResult result =
      test::run_process(std::string("'") + SHARDPROOF_BINARY_DIR + "/mpi_ranks_without_mpi' equal");
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_TRUE(contains(result.out, "backend_unavailable") && contains(result.out, "built without MPI"))
      << result.out;
}

}  // namespace
