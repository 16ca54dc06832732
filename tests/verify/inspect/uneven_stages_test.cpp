// Proves that a pipeline stage with another number of microbatches is named with the numbers, and which
// stages wait for each other where the dumps do not tell these.

#include <cstddef>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "tests/verify/inspect/small_jobs.h"

namespace {

using test::completed;
using test::DumpedTestCall;
using test::inspected;
using test::pending;
using test::ranks_of_world;
using test::suspects;
using test::TestDump;
using Ranks = std::vector<int>;

DumpedTestCall of_pipeline(const char* operation, std::int64_t number, const char* state) {
  DumpedTestCall call = test::message(operation, number, state);
  call.group = 1;
  return call;
}

/// Pipelines of this many stages, side by side. Every rank has completed a sum over all ranks.
std::vector<TestDump> ranks_of_pipelines(int stages, int pipelines) {
  std::vector<TestDump> dumps = ranks_of_world(stages * pipelines);
  for (TestDump& dump : dumps) {
    const int first = dump.rank % pipelines;
    std::vector<int> members;
    for (int stage = 0; stage < stages; ++stage) members.push_back(first + stage * pipelines);
    dump.groups.push_back({std::to_string(1 + first), "PIPELINE_MODEL_PARALLEL_GROUP", members});
    dump.calls = {completed(0, "nccl:all_reduce", 1)};
  }
  return dumps;
}

/// Stage 1 of three has one microbatch and ends its step, and the others have two.
std::vector<TestDump> ranks_with_an_uneven_stage(int pipelines) {
  std::vector<TestDump> dumps = ranks_of_pipelines(3, pipelines);
  for (TestDump& dump : dumps) {
    std::vector<DumpedTestCall> calls;
    if (dump.rank / pipelines == 0) {
      calls = {of_pipeline("nccl:send 0->1", 1, "completed"), of_pipeline("nccl:send 0->1", 2, "scheduled")};
    } else if (dump.rank / pipelines == 1) {
      calls = {of_pipeline("nccl:recv 1<-0", 1, "completed"), of_pipeline("nccl:send 1->2", 2, "completed"),
               pending(0, "nccl:all_reduce", 2)};
    } else {
      calls = {of_pipeline("nccl:recv 2<-1", 1, "completed"), of_pipeline("nccl:recv 2<-1", 2, "scheduled")};
    }
    dump.calls.insert(dump.calls.end(), calls.begin(), calls.end());
  }
  return dumps;
}

TEST(UnevenStages, TheStageWithAnotherNumberIsNamed) {
  const std::string words =
      "Ranks 2 and 3, stage 1 of the pipeline, have begun 1 microbatch since the last call of all stages, "
      "and "
      "the other stages 2; all others wait for them, through pp.";
  std::vector<TestDump> dumps = ranks_with_an_uneven_stage(2);
  EXPECT_EQ(suspects(inspected(dumps)), (Ranks{2, 3}));
  EXPECT_EQ(inspected(dumps).verdict.find(words), 0U) << inspected(dumps).verdict;
  // What the host issues behind the call that holds it is not counted.
  dumps[4].calls.push_back(of_pipeline("nccl:recv 2<-1", 3, "scheduled"));
  EXPECT_EQ(suspects(inspected(dumps)), (Ranks{2, 3})) << inspected(dumps).verdict;
}

TEST(UnevenStages, NothingIsSaidOfAStageWhoseRanksDoNotAgree) {
  std::vector<TestDump> dumps = ranks_with_an_uneven_stage(2);
  std::vector<DumpedTestCall>& calls = dumps[3].calls;
  calls.insert(calls.begin() + 1, {of_pipeline("nccl:recv 1<-0", 1, "completed")});
  EXPECT_EQ(inspected(dumps).verdict.find("microbatch"), std::string::npos) << inspected(dumps).verdict;
}

TEST(UnevenStages, OfTwoStagesBothAreNamed) {
  std::vector<TestDump> dumps = ranks_of_pipelines(2, 1);
  dumps[0].calls.push_back(of_pipeline("nccl:send 0->1", 1, "completed"));
  dumps[1].calls.push_back(of_pipeline("nccl:recv 1<-0", 1, "completed"));
  dumps[0].calls.push_back(of_pipeline("nccl:send 0->1", 2, "scheduled"));
  dumps[1].calls.push_back(pending(0, "nccl:all_reduce", 2));
  EXPECT_EQ(suspects(inspected(dumps)), (Ranks{0, 1}));
  EXPECT_EQ(
      inspected(dumps).verdict.find(
          "Rank 0, stage 0 of the pipeline, has begun 2 microbatches since the last call of all stages, "
          "and the other stages 1."),
      0U)
      << inspected(dumps).verdict;
}

TEST(UnevenStages, WithoutACallOfAllStagesTheWholeDumpIsCounted) {
  std::vector<TestDump> dumps = ranks_of_pipelines(2, 1);
  for (TestDump& dump : dumps) dump.calls.clear();
  dumps[0].calls = {of_pipeline("nccl:send 0->1", 1, "completed"),
                    of_pipeline("nccl:send 0->1", 2, "scheduled")};
  dumps[1].calls = {of_pipeline("nccl:recv 1<-0", 1, "completed"), pending(0, "nccl:all_reduce", 1)};
  EXPECT_NE(inspected(dumps).verdict.find(
                "has begun 2 microbatches since the begin of the dumps, and the other stages 1"),
            std::string::npos)
      << inspected(dumps).verdict;
}

/// Each of two pipelines of two stages waits in a circle, and the rings have lost what came before.
TEST(UnevenStages, StagesThatWaitForEachOtherAreTold) {
  std::vector<TestDump> dumps = ranks_of_pipelines(2, 2);
  for (TestDump& dump : dumps) {
    dump.groups.push_back({std::to_string(3 + dump.rank % 2), "EMBEDDING_GROUP", dump.groups[1].ranks});
    dump.calls = {of_pipeline(dump.rank < 2 ? "nccl:send 0->1" : "nccl:recv 1<-0", 6, "completed")};
    dump.calls.push_back(dump.rank < 2 ? of_pipeline("nccl:send 0->1", 7, "scheduled")
                                       : pending(2, "nccl:all_reduce", 1));
    dump.calls[0].record_id = 11;
    dump.calls[1].record_id = 12;
  }
  EXPECT_EQ(suspects(inspected(dumps)), (Ranks{0, 1, 2, 3}));
  EXPECT_EQ(inspected(dumps).verdict.find(
                "Two parties wait for each other: ranks 2 and 3 wait in nccl:all_reduce, call 1 of the embd "
                "group of ranks 0 and 2, and in 1 other group of this kind, and ranks 0 and 1 wait in "
                "nccl:send 0->1 of the pp group of ranks 0 and 2"),
            0U)
      << inspected(dumps).verdict;
  // Two ranks of one stage that wait for each other are not told so.
  dumps[0].calls[1] = pending(2, "nccl:all_reduce", 1);
  EXPECT_EQ(inspected(dumps).verdict.find("Two parties"), std::string::npos) << inspected(dumps).verdict;
}

}  // namespace
