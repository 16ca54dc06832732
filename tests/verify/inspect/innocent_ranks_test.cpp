// Proves that ranks are not named for what is no fault: a rank that logs, parts of batches that have ended,
// messages that wait behind others, files that were written early.

#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "tests/verify/inspect/small_jobs.h"
#include "verify/inspect/inspection_text.h"
#include "verify/recorded_job/call_meaning.h"
#include "verify/recorded_job/job.h"

namespace {

using test::are_all;
using test::completed;
using test::DumpedTestCall;
using test::inspected;
using test::message;
using test::pending;
using test::ranks_of_world;
using test::suspects;
using test::TestDump;
using verify::Inspection;

using Ranks = std::vector<int>;

/// Rank 3 has stopped. The others wait for it in call 1, after which all but rank 0 have issued call 2: rank
/// 0 reads the loss of each step.
TEST(InnocentRanks, ARankThatIssuesLessThanOthersWaitsForTheOneThatStopped) {
  std::vector<TestDump> dumps = ranks_of_world(4);
  for (std::size_t rank = 0; rank < 3; ++rank) {
    dumps[rank].calls = {pending(0, "nccl:all_reduce", 1)};
    if (rank > 0) dumps[rank].calls.push_back(pending(0, "nccl:all_reduce", 2));
  }
  EXPECT_EQ(suspects(inspected(dumps)), Ranks{3});
  dumps.pop_back();
  EXPECT_EQ(suspects(inspected(dumps)), Ranks{3});
  // Where all have come to the call, no host holds it.
  std::vector<TestDump> stuck = ranks_of_world(2);
  stuck[0].calls = {pending(0, "nccl:all_reduce", 1)};
  stuck[1].calls = {pending(0, "nccl:all_reduce", 1), pending(0, "nccl:all_reduce", 2)};
  const Inspection inspection = inspected(stuck);
  EXPECT_EQ(suspects(inspection), (Ranks{0, 1}));
  EXPECT_EQ(inspection.suspects.at(0).kind, verify::SuspectKind::device);
}

/// Rank 1 has received what rank 0 sent, and waits in a sum for rank 0, whose send is pending still.
TEST(InnocentRanks, ARankThatHasReceivedAMessageIsNotWhatTheSenderWaitsFor) {
  std::vector<TestDump> dumps = ranks_of_world(2);
  dumps[0].calls = {message("nccl:send 0->1", 1, "scheduled", 0)};
  dumps[1].calls = {message("nccl:recv 1<-0", 1, "completed", 0), pending(0, "nccl:all_reduce", 1)};
  const Inspection inspection = inspected(dumps);
  EXPECT_EQ(suspects(inspection), Ranks{});  // the dump of rank 0 may be older
  // Another message that rank 1 has not received yet says nothing of the device.
  dumps[0].calls[0].state = "completed";
  dumps[0].calls.push_back(message("nccl:send 0->1", 2, "scheduled", 1));
  EXPECT_FALSE(are_all(inspected(dumps), verify::SuspectKind::device));
}

/// A call that differed has ended on all ranks. Later rank 2 stopped.
TEST(InnocentRanks, ADifferenceThatEndedEverywhereDoesNotHideTheRankThatStopped) {
  std::vector<TestDump> dumps = ranks_of_world(3);
  for (TestDump& dump : dumps) dump.calls = {completed(0, "nccl:all_reduce", 1)};
  dumps[1].calls[0].dtype = "Double";
  for (const std::size_t rank : {0U, 1U}) dumps[rank].calls.push_back(pending(0, "nccl:all_reduce", 2));
  const Inspection inspection = inspected(dumps);
  EXPECT_EQ(suspects(inspection), Ranks{2});
  EXPECT_TRUE(test::has_finding(inspection, "dtype"));
  // Where it is pending on a rank, it is what holds the ranks.
  dumps[0].calls = {pending(0, "nccl:all_reduce", 1)};
  EXPECT_EQ(suspects(inspected(dumps)), Ranks{1});
}

/// Rank 3 sends to rank 1 what belongs to rank 0, and has come to a call with rank 2.
TEST(InnocentRanks, ASenderWhoseMessageAnotherRankMissesIsInTheCircle) {
  std::vector<TestDump> dumps = ranks_of_world(4, true);
  dumps[0].calls = {message("nccl:recv 0<-3", 1, "scheduled", 0)};
  dumps[3].calls = {message("nccl:send 3->1", 1, "scheduled", 0)};
  for (const std::size_t rank : {1U, 2U, 3U}) dumps[rank].calls.push_back(pending(1, "nccl:all_reduce", 1));
  EXPECT_EQ(suspects(inspected(dumps)), (Ranks{0, 1, 3}));
}

/// A file that ends inside of its last batch does not tell whether the batch has ended.
TEST(InnocentRanks, TheLastBatchOfACutFileIsNotPending) {
  std::vector<TestDump> dumps = ranks_of_world(2);
  dumps[1].calls = {message("nccl:send 1->0", 1, "completed", 0),
                    message("nccl:send 1->0", 2, "scheduled", 2),
                    message("nccl:recv 1<-0", 2, "scheduled", 3)};
  const auto kept = [&](bool has_batches, bool is_truncated) {
    std::vector<verify::Recording> recordings = test::recordings_of(dumps).ranks;
    recordings[1].calls[0].is_part = has_batches;
    recordings[1].is_truncated = is_truncated;
    verify::leave_out_ended_parts(recordings);
    return recordings[1].calls.size();
  };
  EXPECT_EQ(kept(true, true), 1U);
  EXPECT_EQ(kept(true, false), 3U);
  EXPECT_EQ(kept(false, true), 3U);
}

/// The ring of rank 1 has lost what came before a send that is pending, and perhaps holds the send.
TEST(InnocentRanks, AMessageIsNotStuckBehindCallsThatARingHasLost) {
  std::vector<TestDump> dumps = ranks_of_world(2);
  dumps[0].calls = {completed(0, "nccl:all_reduce", 1), message("nccl:recv 0<-1", 1, "scheduled", 1)};
  dumps[1].calls = {message("nccl:send 1->0", 1, "scheduled", 7), pending(0, "nccl:all_reduce", 3)};
  dumps[1].calls[1].record_id = 8;
  EXPECT_EQ(suspects(inspected(dumps)), Ranks{});
  dumps[1].calls[0].record_id = 0;
  dumps[1].calls[1].record_id = 1;
  EXPECT_EQ(suspects(inspected(dumps)), (Ranks{0, 1}));
}

/// Rank 1 has received what rank 0 sent in one batch with a recv, which waits for rank 2, which has stopped.
TEST(InnocentRanks, AReceivedMessageOfABatchSaysNothingOfTheSendersDevice) {
  std::vector<TestDump> dumps = ranks_of_world(3);
  dumps[0].calls = {message("nccl:send 0->1", 1, "scheduled", 0),
                    message("nccl:recv 0<-2", 1, "scheduled", 1)};
  dumps[1].calls = {message("nccl:recv 1<-0", 1, "completed", 0), pending(0, "nccl:all_reduce", 1)};
  EXPECT_EQ(suspects(inspected(dumps)), Ranks{2});
}

/// Two ranks exchange messages in batches of two, number 1 of which has ended: the dump has its parts, and
/// not the entry that ended it.
TEST(InnocentRanks, PartsOfBatchesThatHaveEndedArePendingNoMore) {
  std::vector<TestDump> dumps = ranks_of_world(2);
  dumps[0].calls = {message("nccl:send 0->1", 1, "scheduled", 0),
                    message("nccl:recv 0<-1", 1, "scheduled", 1)};
  dumps[1].calls = {message("nccl:send 1->0", 1, "scheduled", 0),
                    message("nccl:recv 1<-0", 1, "scheduled", 1)};
  for (TestDump& dump : dumps) {
    dump.is_active_only = true;
    dump.has_status = false;
  }
  EXPECT_TRUE(inspected(dumps).suspects.empty());
  // The second batch of rank 0 is pending, and rank 1 has not come to it.
  dumps[0].calls.push_back(message("nccl:send 0->1", 2, "scheduled", 3));
  dumps[0].calls.push_back(message("nccl:recv 0<-1", 2, "scheduled", 4));
  dumps[0].calls.push_back(message("nccl:coalesced", 2, "scheduled", 5));
  dumps[0].calls.back().sequence = 2;
  const Inspection inspection = inspected(dumps);
  EXPECT_EQ(suspects(inspection), Ranks{1}) << inspection.verdict;
  EXPECT_EQ(inspection.suspects.at(0).kind, verify::SuspectKind::host);
}

/// PyTorch 2.4 numbers batches with the collectives.
TEST(InnocentRanks, PartsOfBatchesOfOldVersionsHaveTheNumbersOfCollectives) {
  std::vector<TestDump> dumps = ranks_of_world(2);
  const auto part = [](const char* operation, std::int64_t batch, std::int64_t record_id) {
    DumpedTestCall call = message(operation, 0, "scheduled", record_id);
    call.sequence = batch;
    return call;
  };
  dumps[0].calls = {part("nccl:send 0->1", 1, 0), part("nccl:recv 0<-1", 1, 1), part("nccl:recv 0<-1", 2, 3)};
  dumps[1].calls = {part("nccl:send 1->0", 1, 0), part("nccl:recv 1<-0", 1, 1), part("nccl:send 1->0", 2, 3)};
  for (TestDump& dump : dumps) {
    dump.is_active_only = true;
    dump.has_status = false;
  }
  const Inspection inspection = inspected(dumps);
  EXPECT_TRUE(inspection.suspects.empty()) << inspection.verdict;
}

/// Messages that are sent one by one have a number each, and are pending as the dump says.
TEST(InnocentRanks, MessagesThatAreNoPartsStayPending) {
  std::vector<TestDump> dumps = ranks_of_world(2);
  dumps[0].calls = {message("nccl:recv 0<-1", 1, "scheduled", 0)};
  for (TestDump& dump : dumps) dump.is_active_only = true;
  EXPECT_EQ(suspects(inspected(dumps)), Ranks{1});
}

/// Rank 1 makes the call of its pair before the call of all, where three others wait. The other pair has not
/// made its call: rank 1 is ahead. Where the other pair has made it, rank 0 has left it out.
TEST(InnocentRanks, OfACircleTheRankIsNamedThatIsAheadOfThoseAtItsPlace) {
  std::vector<TestDump> dumps = ranks_of_world(4, true);
  const DumpedTestCall first = completed(1, "nccl:all_reduce", 1);
  for (TestDump& dump : dumps) dump.calls = {first, pending(0, "nccl:barrier")};
  dumps[1].calls = {first, pending(1, "nccl:all_reduce", 2)};
  const Inspection ahead = inspected(dumps);
  EXPECT_EQ(suspects(ahead), Ranks{1});
  EXPECT_TRUE(ahead.verdict.starts_with("Rank 1 has made other calls than the other ranks;"))
      << ahead.verdict;
  for (const std::size_t rank : {2U, 3U})
    dumps[rank].calls = {first, completed(1, "nccl:all_reduce", 2), pending(0, "nccl:barrier")};
  EXPECT_EQ(suspects(inspected(dumps)), Ranks{0});
}

/// Ranks 0 and 1 are in a call to which both have come, after rank 1 sent a message that rank 2 does not
/// receive, because rank 2 is in a call to which rank 3 has come, too, and which does not end.
TEST(InnocentRanks, ACallBehindAMessageThatWaitsIsNotStuckItself) {
  std::vector<TestDump> dumps = ranks_of_world(4, true);
  for (std::size_t rank = 0; rank < 4; ++rank) dumps[rank].calls = {pending(1, "nccl:all_reduce")};
  dumps[1].calls.insert(dumps[1].calls.begin(), message("nccl:send 1->2", 1, "scheduled"));
  EXPECT_EQ(suspects(inspected(dumps)), (Ranks{2, 3}));
  // Where nothing else explains it, the rank that does not receive is named.
  dumps[2].calls = dumps[3].calls = {completed(1, "nccl:all_reduce", 1)};
  const Inspection inspection = inspected(dumps);
  EXPECT_EQ(suspects(inspection), Ranks{2}) << inspection.verdict;
}

/// Rank 3 has stopped. Rank 0 has no rows for it, so it completes the all_to_all for which the others wait.
TEST(InnocentRanks, AnAllToAllThatOthersHaveCompletedIsNoSignOfADevice) {
  std::vector<TestDump> dumps = ranks_of_world(4);
  for (std::size_t rank = 0; rank < 3; ++rank) dumps[rank].calls = {pending(0, "nccl:all_to_all")};
  dumps[0].calls = {completed(0, "nccl:all_to_all", 1), pending(0, "nccl:all_to_all", 2)};
  for (const bool has_status : {false, true}) {
    for (TestDump& dump : dumps) dump.has_status = has_status;
    EXPECT_EQ(suspects(inspected(dumps)), Ranks{3}) << has_status;
  }
}

/// The file of rank 2 was written earlier than call 4, which needs rank 2 and has ended. That rank 3 has not
/// come to call 5 may be of a job that runs.
TEST(InnocentRanks, NobodyIsNamedBesideAFileThatWasWrittenEarly) {
  std::vector<TestDump> dumps = ranks_of_world(4);
  for (TestDump& dump : dumps) {
    dump.has_status = false;
    const std::int64_t last = dump.rank == 2 ? 2 : 4;
    for (std::int64_t call = 1; call <= last; ++call)
      dump.calls.push_back(completed(0, "nccl:all_reduce", call));
  }
  for (const std::size_t rank : {0U, 1U}) dumps[rank].calls.push_back(pending(0, "nccl:all_reduce", 5));
  const Inspection inspection = inspected(dumps);
  EXPECT_EQ(suspects(inspection), Ranks{});
  EXPECT_NE(inspection.verdict.find("Others wait for ranks 2 and 3"), std::string::npos)
      << inspection.verdict;
}

/// The frames of PyTorch are left out, and the verdict has the first that is of the program.
TEST(InnocentRanks, TheVerdictHasTheLineOfTheProgram) {
  verify::Recording recording;
  verify::RecordedCall call;
  const std::string torch =
      "all_reduce (/usr/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py:9)";
  call.frames =
      recording.texts.add(torch + "\nforward (/home/me/torch/train.py:41)\nmain (/home/me/run.py:7)");
  EXPECT_EQ(verify::line_of(recording, call), "forward (/home/me/torch/train.py:41)");
  EXPECT_EQ(verify::program_frames(recording, call).size(), 2U);
  call.frames = recording.texts.add(torch);
  EXPECT_EQ(verify::line_of(recording, call), torch);
  EXPECT_EQ(verify::line_of(recording, {}), "");

  std::vector<TestDump> dumps = ranks_of_world(2);
  for (TestDump& dump : dumps) dump.name_of_frame = "step";
  dumps[0].calls = {completed(0, "nccl:all_reduce", 1), pending(0, "nccl:all_reduce", 2)};
  dumps[1].calls = {completed(0, "nccl:all_reduce", 1)};
  const Inspection inspection = inspected(dumps);
  EXPECT_NE(inspection.verdict.find(" The last call of rank 1 was nccl:all_reduce, call 1 of the default "
                                    "group, made in step ("),
            std::string::npos)
      << inspection.verdict;
  EXPECT_NE(inspection.verdict.find("; rank 0 waits in nccl:all_reduce, call 2 of the default group, made in "
                                    "step ("),
            std::string::npos)
      << inspection.verdict;

  dumps[0].name_of_frame = "sum";
  dumps[0].calls = {pending(0, "nccl:all_reduce")};
  dumps[1].calls = {pending(0, "nccl:broadcast")};
  const Inspection differ = inspected(dumps);
  EXPECT_NE(differ.verdict.find(" Rank 0 makes it in sum ("), std::string::npos) << differ.verdict;
  EXPECT_NE(differ.verdict.find("; rank 1 makes it in step ("), std::string::npos) << differ.verdict;
}

}  // namespace
