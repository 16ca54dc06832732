// Proves which ranks are named of those that hold each other: both ends of a message that does not end, ranks
// that depart from the calls of their pipeline stage, and ranks that stand still behind one without a dump.
// Early dumps hide nobody.

#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "tests/verify/inspect/small_jobs.h"
#include "verify/inspect/inspection_text.h"

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
using verify::SuspectKind;

using Ranks = std::vector<int>;

/// Both ends are at the message from rank 1 to rank 2. Rank 1 also waits for rank 2, and rank 0 for rank 1.
TEST(Departures, BothEndsOfAMessageThatDoesNotEndAreNamed) {
  std::vector<TestDump> dumps = ranks_of_world(3);
  dumps[0].calls = {message("nccl:recv 0<-1", 1, "scheduled")};
  dumps[1].calls = {message("nccl:send 1->2", 1, "scheduled"), message("nccl:send 1->0", 2, "scheduled"),
                    message("nccl:recv 1<-0", 3, "scheduled")};
  dumps[2].calls = {message("nccl:recv 2<-1", 1, "scheduled")};
  const Inspection inspection = inspected(dumps);
  EXPECT_EQ(suspects(inspection), (Ranks{1, 2})) << inspection.verdict;
  EXPECT_TRUE(are_all(inspection, SuspectKind::device));
  EXPECT_NE(inspection.suspects.at(0).reason.find("nothing is pending before them"), std::string::npos);
  // The second message of rank 1 is no such message: another one is pending before its half.
  dumps[2].calls = {message("nccl:recv 2<-1", 1, "completed")};
  dumps[1].calls[0].state = "completed";
  EXPECT_EQ(suspects(inspected(dumps)), (Ranks{0, 1}));
}

/// Rank 1 has received a message that the dump of rank 0 does not have yet.
TEST(Departures, ADumpWithoutASendThatWasReceivedIsEarly) {
  std::vector<TestDump> dumps = ranks_of_world(3, true);
  dumps[0].calls = {completed(1, "nccl:all_reduce", 1)};
  dumps[1].calls = {completed(1, "nccl:all_reduce", 1), message("nccl:recv 1<-0", 1, "completed"),
                    pending(0, "nccl:all_reduce", 1)};
  dumps[2].calls = {pending(0, "nccl:all_reduce", 1)};
  const Inspection older = inspected(dumps);
  EXPECT_EQ(suspects(older), Ranks{});
  EXPECT_EQ(older.explanation.kind, verify::EditKind::older);
  // With the send in its dump, its host stands still.
  dumps[0].calls.push_back(message("nccl:send 0->1", 1, "completed"));
  EXPECT_TRUE(are_all(inspected(dumps), SuspectKind::host));
}

/// The dump of rank 3 lacks a call that the others have completed: so look the dumps of a job that runs.
TEST(Departures, NobodyIsNamedBesideAnOlderDump) {
  std::vector<TestDump> dumps = ranks_of_world(4);
  for (TestDump& dump : dumps)
    dump.calls = {completed(0, "nccl:all_reduce", 1), completed(0, "nccl:all_reduce", 2)};
  dumps[3].calls = {completed(0, "nccl:all_reduce", 1)};
  for (const std::size_t rank : {0U, 1U}) dumps[rank].calls.push_back(pending(0, "nccl:all_reduce", 3));
  EXPECT_EQ(suspects(inspected(dumps)), Ranks{});
  EXPECT_EQ(inspected(dumps).explanation.behind, Ranks({2, 3}));
}

/// Three parties of sizes 2, 2 and 1 have no largest one.
TEST(Departures, OfThreePartiesWithoutALargestOneAllAreToBeLookedAt) {
  std::vector<TestDump> dumps = ranks_of_world(5);
  for (TestDump& dump : dumps) dump.calls = {pending(0, "nccl:all_reduce")};
  for (const std::size_t rank : {2U, 3U}) dumps[rank].calls[0].elements = 8;
  dumps[4].calls[0].elements = 16;
  const Inspection inspection = inspected(dumps);
  EXPECT_NE(inspection.verdict.find("no party is the largest, so look at all"), std::string::npos)
      << inspection.verdict;
}

/// Two ranks disagree in the size of a call of their pair. The other pairs make it as rank 0 does.
TEST(Departures, OfTwoPartiesTheOneThatDepartsFromItsStageIsNamed) {
  std::vector<TestDump> dumps = ranks_of_world(6, true);
  for (TestDump& dump : dumps) dump.calls = {pending(1, "nccl:all_reduce")};
  dumps[1].calls[0].elements = 2 * dumps[0].calls[0].elements;
  const Inspection inspection = inspected(dumps);
  EXPECT_EQ(suspects(inspection), Ranks{1}) << inspection.verdict;
  EXPECT_EQ(inspection.report.first, "Look at rank 1 first.");
  // So does a rank with another dtype.
  dumps[1].calls[0] = pending(1, "nccl:all_reduce");
  dumps[1].calls[0].dtype = "Half";
  EXPECT_EQ(suspects(inspected(dumps)), Ranks{1});
  // Of one pair alone, nobody can tell.
  dumps.resize(2);
  EXPECT_EQ(suspects(inspected(dumps)), (Ranks{0, 1}));
}

/// A replica of two ranks makes a sum of its own, each rank in its group, and the others a gather. A group that
/// differs in another way does not belong to it.
TEST(Departures, GroupsThatDifferInOneWayAreToldTogether) {
  std::vector<TestDump> dumps = ranks_of_world(9);
  for (TestDump& dump : dumps) {
    const int first = dump.rank / 3 * 3;
    dump.groups.push_back({std::to_string(1 + first), "REPLICAS", {first, first + 1, first + 2}});
    dump.calls = {pending(1, "nccl:_all_gather_base")};
  }
  for (const std::size_t rank : {2U, 5U}) dumps[rank].calls = {pending(1, "nccl:all_reduce")};
  Inspection inspection = inspected(dumps);
  EXPECT_EQ(suspects(inspection), (Ranks{2, 5})) << inspection.verdict;
  EXPECT_NE(inspection.verdict.find("1 other group of this kind differs in the same way. "),
            std::string::npos)
      << inspection.verdict;
  EXPECT_EQ(inspection.report.first, "Look at ranks 2 and 5 first.");
  dumps[5].calls = {pending(1, "nccl:barrier")};
  EXPECT_EQ(suspects(inspected(dumps)), Ranks{2});
  // Where no party is the smaller one, both ranks depart from the others.
  std::vector<TestDump> pairs = ranks_of_world(8, true);
  for (TestDump& dump : pairs) dump.calls = {pending(1, "nccl:_all_gather_base")};
  for (const std::size_t rank : {1U, 3U}) pairs[rank].calls = {pending(1, "nccl:all_reduce")};
  inspection = inspected(pairs);
  EXPECT_EQ(suspects(inspection), (Ranks{1, 3})) << inspection.verdict;
}

/// Four pairs, of which the first rank of each goes to a barrier of all, and the second one waits for it in
/// their pair: each pair is a circle. Nobody can tell which party is right, but all of both are named.
TEST(Departures, BothPartiesThatWaitForEachOtherInTheirGroupsAreNamed) {
  std::vector<TestDump> dumps = ranks_of_world(8, true);
  for (TestDump& dump : dumps) {
    const bool saves = dump.rank % 2 == 0;
    dump.calls = {saves ? pending(0, "nccl:barrier") : pending(1, "nccl:all_reduce")};
  }
  const Inspection inspection = inspected(dumps);
  EXPECT_EQ(suspects(inspection), (Ranks{0, 1, 2, 3, 4, 5, 6, 7})) << inspection.verdict;
  EXPECT_TRUE(inspection.verdict.starts_with(
      "Two parties wait for each other: ranks 0, 2, 4 and 6 wait in nccl:barrier, call 1 of the default "
      "group, and ranks 1, 3, 5 and 7 wait in nccl:all_reduce, call 1 of "))
      << inspection.verdict;
  EXPECT_NE(inspection.verdict.find("and in 3 other groups of this kind"), std::string::npos)
      << inspection.verdict;
}

/// Three groups of three ranks, of which the last rank of each goes to a barrier of all.
TEST(Departures, RanksThatAreMissedInSeveralGroupsAreNamedTogether) {
  std::vector<TestDump> dumps = ranks_of_world(9);
  for (TestDump& dump : dumps) {
    const int first = dump.rank / 3 * 3;
    dump.groups.push_back({std::to_string(1 + first), "REPLICAS", {first, first + 1, first + 2}});
    dump.calls = {pending(1, "nccl:all_reduce")};
  }
  for (const std::size_t rank : {2U, 5U, 8U}) dumps[rank].calls = {pending(0, "nccl:barrier")};
  const Inspection inspection = inspected(dumps);
  EXPECT_EQ(suspects(inspection), (Ranks{2, 5, 8})) << inspection.verdict;
}

/// Rank 0 counts a call as completed that is pending on the others: its dump is the latest of a job that runs.
/// Where most have completed it, and wait for the other one, the device of that one is behind.
TEST(Departures, DumpsOfActiveCallsAreOlderWhereAFewCountACallAsCompleted) {
  std::vector<TestDump> dumps = ranks_of_world(4);
  for (TestDump& dump : dumps) {
    dump.calls = {completed(0, "nccl:all_reduce", 1), pending(0, "nccl:all_reduce", 2)};
    dump.is_active_only = true;
  }
  dumps[0].calls = {completed(0, "nccl:all_reduce", 1), completed(0, "nccl:all_reduce", 2),
                    pending(0, "nccl:all_reduce", 3)};
  EXPECT_EQ(suspects(inspected(dumps)), Ranks{}) << inspected(dumps).verdict;
  for (const std::size_t rank : {1U, 2U}) dumps[rank].calls = dumps[0].calls;
  EXPECT_EQ(suspects(inspected(dumps)), Ranks{3}) << inspected(dumps).verdict;
  EXPECT_TRUE(are_all(inspected(dumps), SuspectKind::device));
}

/// Rank 3 was slow, and its dump came later than the others: it alone counts two calls as completed. In one
/// of them most ranks wait, so the other one, of its pair, says nothing of the device of rank 2.
TEST(Departures, ARankWhoseDumpCameLastAccusesNoOtherDevice) {
  std::vector<TestDump> dumps = ranks_of_world(4, true);
  for (TestDump& dump : dumps) {
    dump.is_active_only = true;
    dump.calls = {pending(0, "nccl:all_reduce", 1)};
  }
  dumps[2].calls = {pending(1, "nccl:all_reduce", 1)};
  dumps[3].calls = {completed(1, "nccl:all_reduce", 1), completed(0, "nccl:all_reduce", 1)};
  const Inspection inspection = inspected(dumps);
  EXPECT_EQ(suspects(inspection), Ranks{}) << inspection.verdict;
}

/// Nobody with a dump waits for rank 0, which has none: rank 1, for which rank 2 waits, may wait for it.
TEST(Departures, OtherRanksWithoutADumpAreToldBesideThoseThatAreAwaited) {
  std::vector<TestDump> dumps = ranks_of_world(4, true);
  dumps[2].groups.push_back({"9", "undefined", {1, 2}});
  dumps[2].calls = {pending(2, "nccl:all_reduce")};
  dumps[3].calls = {pending(1, "nccl:all_reduce")};
  dumps.erase(dumps.begin(), dumps.begin() + 2);
  const Inspection inspection = inspected(dumps);
  EXPECT_EQ(suspects(inspection), Ranks{1}) << inspection.verdict;
  EXPECT_NE(inspection.verdict.find(" But rank 0 has no dump either, and rank 1 may wait for it."),
            std::string::npos)
      << inspection.verdict;
}

/// A broadcast ends on its root while the others wait for what comes next to it.
TEST(Departures, ARootThatHasCompletedItsBroadcastIsNotNamed) {
  std::vector<TestDump> dumps = ranks_of_world(4);
  for (TestDump& dump : dumps) {
    dump.calls = {completed(0, "nccl:all_reduce", 1), pending(0, "nccl:broadcast", 2)};
    dump.is_active_only = true;
  }
  dumps[0].calls = {completed(0, "nccl:all_reduce", 1), completed(0, "nccl:broadcast", 2),
                    pending(0, "nccl:all_reduce", 3)};
  EXPECT_EQ(suspects(inspected(dumps)), (Ranks{1, 2, 3}));
}

/// Each pair is in its call: no rank keeps four ranks waiting. Of one pair, a rank may.
TEST(Departures, SeveralCallsToWhichAllHaveComeAreOfARunningJob) {
  std::vector<TestDump> dumps = ranks_of_world(4, true);
  for (TestDump& dump : dumps) dump.calls = {pending(1, "nccl:all_reduce")};
  const Inspection inspection = inspected(dumps);
  EXPECT_TRUE(inspection.suspects.empty()) << inspection.verdict;
  EXPECT_NE(inspection.verdict.find(
                "Every member has come to 2 calls of different ranks that are pending, for example "
                "nccl:all_reduce, call 1 of group '1' of ranks 0 and 1"),
            std::string::npos)
      << inspection.verdict;
  EXPECT_TRUE(test::has_finding(inspection, "stuck"));
  for (const std::size_t rank : {2U, 3U}) dumps[rank].calls = {pending(0, "nccl:all_reduce")};
  EXPECT_EQ(suspects(inspected(dumps)), (Ranks{0, 1}));
  // What the dumps tell of devices counts where several calls are pending, too.
  for (TestDump& dump : dumps) dump.calls = {pending(1, "nccl:all_reduce")};
  for (const std::size_t rank : {0U, 2U}) dumps[rank].calls.front().state = "started";
  EXPECT_EQ(suspects(inspected(dumps)), (Ranks{1, 3}));
}

/// All ranks but rank 0 wait in a barrier that is not recorded, and rank 0 has gone on in its pair.
TEST(Departures, OfManyRanksWithoutAPendingCallNoneIsSaidToHaveStopped) {
  std::vector<TestDump> dumps = ranks_of_world(8, true);
  for (TestDump& dump : dumps) dump.calls = {completed(1, "nccl:all_reduce", 1)};
  dumps[0].calls.push_back(pending(1, "nccl:all_reduce", 2));
  Inspection inspection = inspected(dumps);
  EXPECT_EQ(suspects(inspection), Ranks{0}) << inspection.verdict;
  EXPECT_TRUE(are_all(inspection, SuspectKind::order));
  EXPECT_NE(inspection.verdict.find("wait in something that is not recorded"), std::string::npos)
      << inspection.verdict;
  // The other pairs have made the call, too: rank 1 has not, but it is not alone without a pending call.
  for (std::size_t rank = 2; rank < 8; ++rank)
    dumps[rank].calls.push_back(completed(1, "nccl:all_reduce", 2));
  inspection = inspected(dumps);
  EXPECT_EQ(suspects(inspection), Ranks{1}) << inspection.verdict;
  EXPECT_NE(inspection.verdict.find("But ranks 2 to 7 have no pending call either."), std::string::npos)
      << inspection.verdict;
}

/// Rank 0 makes the sum of the world before that of its pair, which the other pairs have made.
TEST(Departures, ARankThatLeavesOutACallIsNamedWithTheCall) {
  std::vector<TestDump> dumps = ranks_of_world(6, true);
  for (TestDump& dump : dumps) dump.calls = {completed(1, "nccl:all_reduce", 1), pending(0, "nccl:barrier")};
  dumps[0].calls = {pending(0, "nccl:barrier")};
  dumps[1].calls = {pending(1, "nccl:all_reduce")};
  const Inspection inspection = inspected(dumps);
  EXPECT_EQ(suspects(inspection), Ranks{0}) << inspection.verdict;
  EXPECT_NE(inspection.verdict.find("Rank 0 has made other calls than the other ranks;"), std::string::npos)
      << inspection.verdict;
  EXPECT_NE(inspection.verdict.find("It made nccl:barrier"), std::string::npos) << inspection.verdict;
  // Dumps of active calls alone do not tell what their ranks made before.
  for (TestDump& dump : dumps) dump.is_active_only = true;
  EXPECT_EQ(suspects(inspected(dumps)), (Ranks{0, 1}));
}

/// Rank 3 makes the groups of the pairs before those of the two halves of four ranks, and the others after.
TEST(Departures, ARankThatMakesItsGroupsInAnotherOrderIsNamed) {
  std::vector<TestDump> dumps = ranks_of_world(4);
  for (TestDump& dump : dumps) {
    const bool is_odd = dump.rank == 3;
    const int first = dump.rank / 2 * 2;
    dump.groups.push_back({is_odd ? "2" : "1", "PAIR", {first, first + 1}});
    dump.groups.push_back({is_odd ? "1" : "2", "OTHERS", {dump.rank % 2, dump.rank % 2 + 2}});
    dump.groups.push_back({is_odd ? "4" : "3", "ALL", {0, 1, 2, 3}});
    dump.calls = {completed(0, "nccl:all_reduce", 1)};
  }
  for (const std::size_t rank : {0U, 1U}) dumps[rank].calls.push_back(pending(1, "nccl:all_reduce"));
  const Inspection inspection = inspected(dumps);
  EXPECT_EQ(suspects(inspection), Ranks{3}) << inspection.verdict;
  EXPECT_TRUE(
      inspection.verdict.starts_with("Rank 3 has made groups in another order than the other members"))
      << inspection.verdict;
  // Groups in which a call has completed were formed.
  std::vector<TestDump> formed = dumps;
  for (TestDump& dump : formed)
    for (const std::size_t group : {1U, 2U, 3U}) dump.calls.push_back(completed(group, "nccl:all_reduce", 1));
  EXPECT_FALSE(test::has_finding(inspected(formed), "groups"));
  // Two halves of a job that have made groups apart are no sign.
  for (TestDump& dump : dumps) {
    dump.groups.resize(1);
    dump.groups.push_back({dump.rank < 2 ? "3" : "4", "ALL", {0, 1, 2, 3}});
  }
  EXPECT_FALSE(test::has_finding(inspected(dumps), "groups"));
}

/// Of a job of two ranks, nothing tells which of them is odd.
TEST(Departures, OfTwoRanksThatNumberTheirGroupInOtherOrdersBothAreNamed) {
  std::vector<TestDump> two = ranks_of_world(2);
  for (TestDump& dump : two) {
    dump.groups.push_back({dump.rank == 0 ? "1" : "2", "PAIR", {0, 1}});
    dump.groups.push_back({dump.rank == 0 ? "2" : "1", "OTHERS", {0, 1}});
    dump.calls = {completed(0, "nccl:all_reduce", 1), pending(1, "nccl:all_reduce")};
  }
  EXPECT_EQ(suspects(inspected(two)), (Ranks{0, 1}));
  EXPECT_TRUE(inspected(two).verdict.starts_with("Ranks 0 and 1 have made groups in different orders: "))
      << inspected(two).verdict;
}

/// Rank 1 has no dump, and a message waits for it. Nothing that is known waits for rank 0, which has no
/// pending call: to name it, too, would be another edit.
TEST(Departures, ARankWithoutADumpExplainsTheWaitAlone) {
  std::vector<TestDump> dumps = ranks_of_world(3);
  dumps[2].calls = {message("nccl:recv 2<-1", 1, "scheduled")};
  dumps.erase(dumps.begin() + 1);
  const Inspection inspection = inspected(dumps);
  EXPECT_EQ(suspects(inspection), Ranks{1});
  // So it is where rank 0 waits, too.
  dumps[0].calls = {message("nccl:recv 0<-1", 1, "scheduled")};
  EXPECT_EQ(suspects(inspected(dumps)), Ranks{1});
}

/// Of two ranks that make different calls, or wait for each other, nothing tells which of them is wrong.
TEST(Departures, OfTwoPartiesOfOneSizeBothAreNamed) {
  std::vector<TestDump> dumps = ranks_of_world(2, true);
  for (TestDump& dump : dumps) dump.calls = {completed(1, "nccl:all_reduce", 1)};
  dumps[0].calls.push_back(pending(1, "nccl:all_reduce", 2));
  dumps[1].calls.push_back(pending(1, "nccl:_all_gather_base", 2));
  EXPECT_EQ(suspects(inspected(dumps)), (Ranks{0, 1}));
  EXPECT_EQ(inspected(dumps).report.confidence, verify::Confidence::open);
  dumps[1].calls.back() = pending(0, "nccl:barrier", 1);
  EXPECT_EQ(suspects(inspected(dumps)), (Ranks{0, 1}));
}

/// Rank 3 waits in the sum of its pair for rank 2, and the three others in a barrier for it: one edit is enough.
TEST(Departures, OfTwoCallsInWhichRanksWaitForEachOtherTheFewerRanksAreNamed) {
  std::vector<TestDump> dumps = ranks_of_world(4);
  for (TestDump& dump : dumps) {
    dump.groups.push_back({"1", "DATA_PARALLEL_GROUP", {0, 1, 2, 3}});
    dump.calls = {dump.rank == 3 ? pending(1, "nccl:all_reduce", 7) : pending(0, "nccl:barrier", 2)};
    dump.calls[0].record_id = 50;  // the rings have lost what came before
    dump.is_active_only = true;
  }
  EXPECT_EQ(suspects(inspected(dumps)), Ranks{3}) << inspected(dumps).verdict;
}

/// Two stages of three ranks. Rank 0 goes to the barrier of all without its message to rank 3.
TEST(Departures, AMeshTellsItsPipelineStages) {
  for (const char* description : {"mesh_pp", "undefined"}) {
    std::vector<TestDump> dumps = ranks_of_world(6);
    for (TestDump& dump : dumps) {
      const int first = dump.rank % 3;
      dump.groups.push_back({std::to_string(1 + first), description, {first, first + 3}});
      test::DumpedTestCall call =
          message(dump.rank < 3 ? "nccl:send 0->1" : "nccl:recv 1<-0", 1, "completed");
      call.group = 1;
      dump.calls = {call, pending(0, "nccl:barrier")};
    }
    dumps[0].calls.erase(dumps[0].calls.begin());
    dumps[3].calls.pop_back();
    dumps[3].calls.front().state = "scheduled";
    const bool is_mesh = std::string(description) == "mesh_pp";
    const Inspection inspection = inspected(dumps);
    EXPECT_EQ(suspects(inspection), (is_mesh ? Ranks{0} : Ranks{0, 3})) << inspection.verdict;
  }
}

/// Rank 0 waits in one batch for ranks 1 and 2, which both wait for it in a barrier.
TEST(Departures, AllPeersOfABatchThatWaitForItsRankAreNamed) {
  std::vector<TestDump> dumps = ranks_of_world(3);
  for (TestDump& dump : dumps)
    dump.calls = {completed(0, "nccl:all_reduce", 1), pending(0, "nccl:barrier", 2)};
  dumps[0].calls = {completed(0, "nccl:all_reduce", 1), message("nccl:send 0->1", 1, "scheduled"),
                    message("nccl:recv 0<-2", 1, "scheduled")};
  const Inspection inspection = inspected(dumps);
  EXPECT_EQ(suspects(inspection), (Ranks{0, 1, 2})) << inspection.verdict;
}

/// Ranks 0 and 1 wait for each other, and rank 2, which has no dump, may wait for them in the same sum.
TEST(Departures, ACircleOfRanksWithDumpsComesBeforeARankWithoutOne) {
  std::vector<TestDump> dumps = ranks_of_world(4, true);
  dumps[0].calls = {pending(0, "nccl:barrier", 1)};
  dumps[1].calls = {pending(1, "nccl:all_reduce", 1)};
  dumps[3].calls = {pending(1, "nccl:all_reduce", 1)};
  dumps.erase(dumps.begin() + 2);
  const Inspection inspection = inspected(dumps);
  EXPECT_EQ(suspects(inspection), Ranks{0}) << inspection.verdict;
  EXPECT_NE(inspection.verdict.find("Rank 2 has no whole dump, and others wait for it: it may wait, too"),
            std::string::npos)
      << inspection.verdict;
}

/// The devices of ranks 0 to 2 of a pipeline are in messages of which each is queued behind one that waits
/// for the next rank, and rank 3 sums over all ranks in place of its recv.
TEST(Departures, AMessageThatIsQueuedBehindASendIsNotStuck) {
  std::vector<TestDump> dumps = ranks_of_world(4);
  const char* const sends[] = {"nccl:send 0->1", "nccl:send 1->2", "nccl:send 2->3"};
  const char* const recvs[] = {"", "nccl:recv 1<-0", "nccl:recv 2<-1"};
  for (std::size_t rank = 0; rank < 3; ++rank) {
    dumps[rank].calls = {message(sends[rank], 1, "scheduled")};
    if (rank > 0) dumps[rank].calls.push_back(message(recvs[rank], 2, "scheduled"));
  }
  dumps[3].calls = {pending(0, "nccl:all_reduce", 1)};
  const Inspection inspection = inspected(dumps);
  EXPECT_EQ(suspects(inspection), (Ranks{2, 3})) << inspection.verdict;
}

/// All ranks but rank 0 wait in what is not recorded, or have ended, and nothing but the pair of rank 0 tells
/// of it: rank 1 may have left out the call.
TEST(Departures, WhereOneRankAloneIsOneCallBehindBothAreNamed) {
  std::vector<TestDump> dumps = ranks_of_world(8);
  for (TestDump& dump : dumps) dump.calls = {completed(0, "nccl:barrier", 1)};
  for (const std::size_t rank : {0U, 1U}) {
    dumps[rank].groups.push_back({"1", "undefined", {0, 1}});
    dumps[rank].calls.push_back(completed(1, "nccl:all_reduce", 1));
  }
  dumps[0].calls.push_back(pending(1, "nccl:all_reduce", 2));
  const Inspection inspection = inspected(dumps);
  EXPECT_EQ(suspects(inspection), (Ranks{0, 1})) << inspection.verdict;
  EXPECT_TRUE(inspection.verdict.starts_with("Rank 0 made calls that the others did not make"))
      << inspection.verdict;
  EXPECT_NE(inspection.verdict.find("It is as consistent with rank 1, which it waits for"), std::string::npos)
      << inspection.verdict;
}

}  // namespace
