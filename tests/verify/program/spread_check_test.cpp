// Proves check --spread mpi with real processes under mpirun: the table is that of one process, byte for
// byte, a failure is the same one, and a process that dies is told.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>
#include <string>
#include <utility>

#include "tests/support/contains.h"
#include "tests/support/mpi.h"
#include "tests/support/run.h"

namespace {

using test::contains;

constexpr const char* kSpread = " --spread mpi";

std::string program(const std::string& name) {
  return std::string("'") + SHARDPROOF_BINARY_DIR + "'/" + name;
}

class Spread : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = test::no_processes(); !why.empty()) GTEST_SKIP() << why;
  }
};

std::string text_of_file(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

/// Runs lines of a shell in one process (0) or in each process under mpirun. Returns what they write to
/// standard output, without what mpirun itself says. Every process ends with the exit code.
std::string output_of(int processes, const std::string& lines, int exit_code) {
  const test::TemporaryFile out("spread-out", ""), codes("spread-codes", "");
  const test::TemporaryFile script(
      "spread.sh", "(" + lines + ") >> " + out.path() + "\necho $? >> " + codes.path() + "\n");
  const std::string told = "sh " + script.path();
  const test::RunResult result =
      processes == 0 ? test::run_process(told) : test::run_under_mpi(processes, told);
  std::string expected;
  for (int process = 0; process < std::max(processes, 1); ++process)
    expected += std::to_string(exit_code) + "\n";
  EXPECT_EQ(text_of_file(codes.path()), expected) << lines << "\n" << result.out;
  return text_of_file(out.path());
}

/// In the shell, the number of the process as Open MPI or MPICH tells it.
constexpr const char* kProcess = "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}";

TEST_F(Spread, TheTableIsThatOfOneProcess) {
  for (const char* format : {"text", "json"}) {
    const std::string command = program("shardproof") +
                                " check --runs 9 --case mlp,parallel_norm,vocab_parallel_embedding "
                                "--property serial,calls,special --format " +
                                format;
    const std::string one = output_of(0, command, 0);
    EXPECT_TRUE(contains(one, "verified")) << one;
    for (const int processes : {2, 3}) {
      for (const char* threads : {" --threads 1", " --threads 2"})
        EXPECT_EQ(output_of(processes, command + kSpread + threads, 0), one) << processes << threads;
    }
  }
}

TEST_F(Spread, AFailureIsThatOfOneProcess) {
  for (const auto& [name, exit_code] : {std::pair("wrong", 1), std::pair("throws", 3)}) {
    const std::string command = program("spread_ranks ") + name + " check --property serial,agree --runs 40";
    const std::string one = output_of(0, command, exit_code);
    EXPECT_TRUE(contains(one, "tp 2,") && contains(one, "hidden 1, tokens 3")) << one;
    for (const int processes : {2, 3}) {
      for (const char* threads : {" --threads 1", " --threads 2"})
        EXPECT_EQ(output_of(processes, command + kSpread + threads, exit_code), one) << processes << threads;
    }
  }
}

/// An interrupt of one process ends all of them with its exit code, and the table says how far they came.
TEST_F(Spread, AnInterruptOfOneProcessEndsAll) {
  const std::string command = program("spread_ranks ") + "right check --runs 1000000" + kSpread;
  const std::string out = output_of(2,
                                    std::string("if [ ") + kProcess +
                                        " = 1 ]; then timeout --foreground --preserve-status -s INT 3 " +
                                        command + "; else " + command + "; fi",
                                    130);
  EXPECT_TRUE(contains(out, "\ninterrupted: ") && contains(out, "holds so far")) << out;
}

TEST_F(Spread, AProcessThatIsGoneIsTold) {
  const auto run = [](const std::string& name) {
    return test::run_under_mpi(
        3, program("spread_ranks ") + name + " check --runs 20000 --deadline 5" + kSpread);
  };
  const test::RunResult stopped = run("stopped");
  EXPECT_EQ(stopped.exit_code, 3) << stopped.out;
  EXPECT_TRUE(contains(stopped.out, "rank_silent") && contains(stopped.out, "all_reduce 'spread.pulse'") &&
              contains(stopped.out, "waited 5 s for rank 1\n"))
      << stopped.out;
  const test::RunResult killed = run("killed");
  EXPECT_NE(killed.exit_code, 0) << killed.out;
  EXPECT_NE(killed.exit_code, 124) << "it had to be stopped\n" << killed.out;
  EXPECT_TRUE(contains(killed.out, "signal 9")) << killed.out;
  const test::RunResult left = run("leaves");
  EXPECT_EQ(left.exit_code, 3) << left.out;
  EXPECT_TRUE(contains(left.out, "rank_exited: rank 0 called exit()")) << left.out;
  for (const test::RunResult& result : {stopped, killed, left})
    EXPECT_FALSE(contains(result.out, "verified")) << result.out;
}

TEST_F(Spread, ProcessesThatAreAskedForDifferentThingsDoNotBegin) {
  const test::TemporaryFile script(
      "seeds.sh", program("spread_ranks ") + "right check" + kSpread + " --seed " + kProcess + "\n");
  const test::RunResult result = test::run_under_mpi(2, "sh " + script.path());
  EXPECT_EQ(result.exit_code, 2) << result.out;
  EXPECT_TRUE(contains(result.out, "rendezvous_configuration")) << result.out;
}

TEST_F(Spread, ARefusalIsToldByProcess0) {
  const test::RunResult result =
      test::run_under_mpi(2, program("shardproof") + " check --case no_such_case" + kSpread);
  EXPECT_EQ(result.exit_code, 2) << result.out;
  const std::string refused = "shardproof: refused [unknown_case]";
  const std::size_t first = result.out.find(refused);
  ASSERT_NE(first, std::string::npos) << result.out;
  EXPECT_EQ(result.out.find(refused, first + 1), std::string::npos) << result.out;
}

TEST(SpreadAbsent, IsRefusedByName) {
  const test::RunResult result =
      test::run_process(program("spread_ranks_without_mpi") + " right check" + kSpread);
  EXPECT_EQ(result.exit_code, 4) << result.out;
  EXPECT_TRUE(contains(result.out, "refused [backend_unavailable]") &&
              contains(result.out, "where  --spread mpi") && contains(result.out, "built without MPI"))
      << result.out;
}

}  // namespace
