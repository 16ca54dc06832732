// Proves rungs 10 and 11 of the GPU ladder: processes on NCCL, all of them on the first GPU, so that one
// GPU is enough.

#include <array>
#include <cstdio>
#include <gtest/gtest.h>
#include <string>
#include <sys/wait.h>

namespace {

struct Ended {
  int exit_code = 0;
  std::string out;
};

Ended run_shell(const std::string& command) {
  Ended ended;
  FILE* pipe = popen(("(" + command + ") 2>&1").c_str(), "r");
  std::array<char, 4096> piece{};
  while (std::fgets(piece.data(), piece.size(), pipe) != nullptr) ended.out += piece.data();
  const int status = pclose(pipe);
  ended.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return ended;
}

const std::string kRanks = std::string("'") + SHARDPROOF_NCCL_RANKS + "'";

/// Returns why there is no GPU for NCCL here, or "" if there is one.
std::string why_not() {
  const Ended asked = run_shell("CUDA_VISIBLE_DEVICES=0 " + kRanks + " gpus");
  return asked.exit_code == 0 ? "" : asked.out;
}

/// Runs the ranks and returns the worst exit code of all. No rank outlives the shell by long.
Ended run_ranks(int ranks, const std::string& words) {
  const std::string n = std::to_string(ranks);
  return run_shell("worst=0; port=$((20000 + $$ % 9000)); pids=; for rank in $(seq 0 " +
                   std::to_string(ranks - 1) + "); do CUDA_VISIBLE_DEVICES=0 RANK=$rank WORLD_SIZE=" + n +
                   " LOCAL_RANK=$rank LOCAL_WORLD_SIZE=" + n +
                   " MASTER_ADDR=127.0.0.1 MASTER_PORT=$port timeout -k 10 240 " + kRanks + " " + words +
                   " & pids=\"$pids $!\"; done; for pid in $pids; do wait $pid; code=$?; "
                   "[ $code -gt $worst ] && worst=$code; done; exit $worst");
}

class Nccl : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = why_not(); !why.empty()) GTEST_SKIP() << why;
  }
  static void expect(int ranks, const std::string& words) {
    const Ended ended = run_ranks(ranks, words);
    EXPECT_EQ(ended.exit_code, 0) << ranks << " ranks, " << words << "\n" << ended.out;
  }
};

class Gpu10Nccl : public Nccl {};
class Gpu11NcclTraining : public Nccl {};

TEST_F(Gpu10Nccl, AWorldOfOne) { expect(1, "calls 1 1 60"); }
TEST_F(Gpu10Nccl, TwoRanksOnOneGpu) { expect(2, "calls 2 2 60"); }
TEST_F(Gpu10Nccl, FourRanksOnOneGpu) { expect(4, "calls 4 3 60"); }
TEST_F(Gpu10Nccl, SumsInTheOrderOfTheRing) {
  for (const int ranks : {2, 4})
    expect(ranks, "rings " + std::to_string(ranks));  // a sum of two has no order
}
TEST_F(Gpu10Nccl, MessagesThatCross) { expect(2, "crossed 2"); }
TEST_F(Gpu10Nccl, ARankThatStaysAwayEndsAll) {
  const Ended ended = run_ranks(2, "late 2");
  EXPECT_EQ(ended.exit_code, 3) << ended.out;
  EXPECT_NE(ended.out.find("nccl_deadline"), std::string::npos) << ended.out;
}
TEST_F(Gpu11NcclTraining, TwoRanks) { expect(2, "training 2"); }
TEST_F(Gpu11NcclTraining, FourRanks) { expect(4, "training 4"); }
TEST_F(Gpu11NcclTraining, TwoRanksWithExperts) {
  for (const char* words : {"experts-allgather 2", "experts-alltoall 2", "experts-flex 2"}) expect(2, words);
}
TEST_F(Gpu11NcclTraining, FourRanksWithExperts) {
  for (const char* words : {"experts-allgather 4", "experts-alltoall 4", "experts-flex 4"}) expect(4, words);
}

TEST_F(Gpu11NcclTraining, FourRanksWithContextParallelism) {
  for (const char* words : {"context-p2p 4", "context-all_gather 4", "context-a2a 4", "context-a2a+p2p 4"})
    expect(4, words);
}

// Without a GPU the program says so and does not hang, whether NCCL or the driver is missing.
TEST(NcclRanks, SayWhyThereIsNone) {
  const Ended asked = run_shell("CUDA_VISIBLE_DEVICES=-1 " + kRanks + " calls 1");
  EXPECT_EQ(asked.exit_code, 2) << asked.out;
  const bool is_said = asked.out.find("cuda_unavailable") != std::string::npos ||
                       asked.out.find("backend_unavailable") != std::string::npos;
  EXPECT_TRUE(is_said) << asked.out;
}

}  // namespace
