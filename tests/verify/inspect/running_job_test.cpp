// Proves that nobody is accused where the dumps show a job that ran while they were written, and that a rank
// is named all the same for which all others wait.

#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "tests/verify/inspect/small_jobs.h"

namespace {

using test::completed;
using test::inspected;
using test::message;
using test::pending;
using test::ranks_of_world;
using test::suspects;
using test::TestDump;
using verify::Inspection;
using Ranks = std::vector<int>;

bool says(const Inspection& inspection, const std::string& part) {
  return inspection.verdict.find(part) != std::string::npos;
}

/// Rank 1 computes, and the other two pairs are in their calls, which do not wait for it.
TEST(RunningJob, AHostIsNotAccusedBesideCallsThatCanEnd) {
  std::vector<TestDump> dumps = ranks_of_world(6, true);
  for (TestDump& dump : dumps) dump.calls = {pending(1, "nccl:all_reduce")};
  dumps[1].calls.clear();
  Inspection inspection = inspected(dumps);
  EXPECT_EQ(suspects(inspection), Ranks{});
  EXPECT_TRUE(says(inspection, "Every member has come to 2 calls of different ranks that are pending"))
      << inspection.verdict;
  EXPECT_TRUE(says(inspection, "Others wait for rank 1: look there first if the job hangs all the same."))
      << inspection.verdict;
  // In a job that hangs, the other pairs wait for it, too.
  for (std::size_t rank = 2; rank < 6; ++rank) dumps[rank].calls = {pending(0, "nccl:all_reduce")};
  inspection = inspected(dumps);
  EXPECT_EQ(suspects(inspection), Ranks{1}) << inspection.verdict;
  EXPECT_FALSE(says(inspection, "But ")) << inspection.verdict;
}

/// Rank 1 has no dump, and the other pair is in a call that can end.
TEST(RunningJob, ARankWithoutADumpIsNotAccusedBesideACallThatCanEnd) {
  std::vector<TestDump> dumps = ranks_of_world(4, true);
  for (TestDump& dump : dumps) dump.calls = {pending(1, "nccl:all_reduce")};
  dumps.erase(dumps.begin() + 1);
  EXPECT_EQ(suspects(inspected(dumps)), Ranks{});
  EXPECT_TRUE(says(inspected(dumps), "Every member has come to 1 call that is pending"))
      << inspected(dumps).verdict;
  for (const std::size_t dump : {1U, 2U}) dumps[dump].calls = {pending(0, "nccl:all_reduce")};
  EXPECT_EQ(suspects(inspected(dumps)), Ranks{1}) << inspected(dumps).verdict;
}

/// Rank 1 waits for rank 0, whose dump is early, and the other ranks have no pending call.
TEST(RunningJob, RanksOfEarlyDumpsAreNotAccusedWhereOthersDoNotWaitForThem) {
  std::vector<TestDump> dumps = ranks_of_world(6, true);
  for (TestDump& dump : dumps) {
    for (std::int64_t call = 1; call <= (dump.rank == 0 ? 1 : 2); ++call)
      dump.calls.push_back(completed(0, "nccl:all_reduce", call));
  }
  dumps[1].calls.push_back(pending(1, "nccl:all_reduce", 1));
  Inspection inspection = inspected(dumps);
  EXPECT_EQ(suspects(inspection), Ranks{});
  EXPECT_TRUE(says(inspection, "The job was running when the dumps were written")) << inspection.verdict;
  // So it is where all wait for it: its dump lacks a call that needed it, and that has completed.
  for (std::size_t rank = 2; rank < 6; ++rank) dumps[rank].calls.push_back(pending(0, "nccl:all_reduce", 3));
  EXPECT_EQ(suspects(inspected(dumps)), Ranks{});
}

/// Rank 1 has no pending call, and rank 2 waits for it. Rank 3 waits for rank 0, whose dump is early.
TEST(RunningJob, AHostIsNotAccusedBesideAnEarlyDumpForWhichOthersWait) {
  std::vector<TestDump> dumps = ranks_of_world(4);
  for (TestDump& dump : dumps) {
    for (std::int64_t call = 1; call <= (dump.rank == 0 ? 1 : 2); ++call)
      dump.calls.push_back(completed(0, "nccl:all_reduce", call));
  }
  dumps[2].calls.push_back(message("nccl:recv 2<-1", 1, "scheduled"));
  dumps[3].calls.push_back(message("nccl:recv 3<-0", 1, "scheduled"));
  EXPECT_EQ(suspects(inspected(dumps)), Ranks{});
  EXPECT_TRUE(says(inspected(dumps), "Others wait for ranks 0 and 1")) << inspected(dumps).verdict;
}

/// The barrier has ended on ranks 0 to 2, and nobody waits for rank 3, whose dump shows it as pending.
TEST(RunningJob, ADeviceForWhichNobodyWaitsIsNotAccused) {
  std::vector<TestDump> dumps = ranks_of_world(4);
  for (TestDump& dump : dumps) dump.calls = {completed(0, "nccl:all_reduce", 1)};
  dumps[3].calls = {pending(0, "nccl:all_reduce", 1)};
  EXPECT_EQ(suspects(inspected(dumps)), Ranks{});
  for (TestDump& dump : dumps) dump.calls.push_back(pending(0, "nccl:all_reduce", 2));
  EXPECT_EQ(suspects(inspected(dumps)), Ranks{3});
}

/// Rank 1 has no dump, rank 0 waits for it, and ranks 2 to 4 have no pending call.
TEST(RunningJob, ARankWithoutADumpIsDoubtedWhereMostHaveNoPendingCall) {
  std::vector<TestDump> dumps = ranks_of_world(5);
  for (TestDump& dump : dumps) dump.calls = {completed(0, "nccl:all_reduce", 1)};
  dumps[0].calls.push_back(message("nccl:recv 0<-1", 1, "scheduled"));
  dumps.erase(dumps.begin() + 1);
  const std::string doubt = "But ranks 2 to 4 have no pending call: the dumps may have been written while";
  EXPECT_EQ(suspects(inspected(dumps)), Ranks{1});
  EXPECT_TRUE(says(inspected(dumps), doubt)) << inspected(dumps).verdict;
}

/// Rank 1 has died without a dump. Call 2 has failed on ranks 0 and 2, and is pending on rank 3: it is not ahead
/// of them, and they are not at fault. With a dump of rank 1, these are the dumps of a job that runs.
TEST(RunningJob, ARankThatDiedExplainsCallsThatFailed) {
  std::vector<TestDump> dumps = ranks_of_world(4);
  for (TestDump& dump : dumps) {
    dump.calls = {completed(0, "gloo:all_reduce", 1)};
    if (dump.rank != 1) dump.calls.push_back(completed(0, "gloo:all_reduce", 2));
  }
  dumps[3].calls.back() = pending(0, "gloo:all_reduce", 2);
  EXPECT_EQ(suspects(inspected(dumps)), Ranks{});
  for (const std::size_t rank : {0U, 2U}) {
    dumps[rank].calls.back().state = "scheduled";
    dumps[rank].calls.back().is_retired = true;
  }
  dumps.erase(dumps.begin() + 1);
  EXPECT_EQ(suspects(inspected(dumps)), Ranks{1}) << inspected(dumps).verdict;
}

}  // namespace
