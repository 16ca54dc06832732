// Proves that a verdict is doubted where the dumps cannot tell: calls that the ring has lost, dumps that
// contradict each other, ranks without a whole dump that may wait themselves.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "tests/verify/inspect/small_jobs.h"
#include "tests/verify/recordings/examined_run.h"
#include "verify/inspect/inspection_text.h"

namespace {

using test::has_finding;
using test::inspected;
using test::pending;
using test::pending_message;
using test::ranks_of_world;
using test::suspects;
using test::TestDump;
using verify::Inspection;

using Ranks = std::vector<int>;

constexpr const char* kDoubt = "This holds if the dumps are of one job and under the right ranks";

/// Two ranks whose status says that five calls of their group were issued and two completed, and of which the
/// ring has the calls from number `first` on.
std::vector<verify::RankDump> ranks_with_a_ring_from(std::int64_t first) {
  std::vector<verify::RankDump> dumps;
  for (const int rank : {0, 1}) {
    verify::RankDump dump{.rank = rank, .groups = {}, .calls = {}};
    dump.groups.push_back({.number = 0,
                           .name = "1",
                           .description = "TENSOR_MODEL_PARALLEL_GROUP",
                           .ranks = "[0, 1]",
                           .last_enqueued = 5,
                           .last_started = 2,
                           .last_completed = 2});
    for (std::int64_t sequence = first; sequence <= 5; ++sequence) {
      verify::FlightCall call{.record_id = sequence, .collective_seq_id = sequence, .op_id = sequence};
      call.profiling_name = "nccl:all_reduce";
      call.input_sizes = call.output_sizes = {{4}};
      call.input_dtype = call.output_dtype = "Float";
      dump.calls.push_back(std::move(call));
    }
    dumps.push_back(std::move(dump));
  }
  return dumps;
}

TEST(DoubtedVerdicts, NobodyIsNamedWhereTheRingHasLostTheCallThatHoldsTheRanks) {
  const Inspection lost = verify::inspect(test::read_dumps(ranks_with_a_ring_from(5)), {}, false);
  EXPECT_TRUE(lost.suspects.empty());
  EXPECT_TRUE(has_finding(lost, "lost"));
  EXPECT_EQ(lost.verdict,
            "The dumps do not show which rank keeps the others waiting. The rings of ranks 0 and 1 have "
            "overwritten calls that may be pending, and these may hold the ranks. A larger ring "
            "(TORCH_FR_BUFFER_SIZE) keeps them.");
  EXPECT_TRUE(lost.has_findings());
  // No operation is known of a call that only "pg_status" knows, and nothing is guessed of it.
  const verify::Json json = verify::inspection_json(lost);
  const verify::Json& wait = (*json.find("waits"))[0];
  EXPECT_EQ(wait.find("sequence")->integer(), 3);
  EXPECT_TRUE(wait.find("operation")->is_null());
  EXPECT_TRUE(wait.find("looks_like")->is_null());

  const Inspection kept = verify::inspect(test::read_dumps(ranks_with_a_ring_from(3)), {}, false);
  EXPECT_FALSE(has_finding(kept, "lost"));
  EXPECT_EQ(suspects(kept), (Ranks{0, 1}));
}

/// Four ranks of which rank 3 has not come to a call.
std::vector<TestDump> ranks_that_wait() {
  std::vector<TestDump> dumps = ranks_of_world(4, true);
  for (std::size_t rank = 0; rank < 3; ++rank) dumps[rank].calls = {pending(0, "nccl:all_reduce")};
  return dumps;
}

TEST(DoubtedVerdicts, AVerdictOfDumpsThatContradictEachOtherIsDoubted) {
  const auto is_doubted = [](const std::vector<TestDump>& dumps) {
    const Inspection inspection = inspected(dumps);
    EXPECT_FALSE(inspection.suspects.empty()) << inspection.verdict;
    return inspection.verdict.find(kDoubt) != std::string::npos;
  };
  EXPECT_FALSE(is_doubted(ranks_that_wait()));
  std::vector<TestDump> worlds = ranks_that_wait();
  worlds[1].groups[0].ranks = {0, 1, 2, 3, 4, 5, 6, 7};
  EXPECT_TRUE(is_doubted(worlds));
  std::vector<TestDump> members = ranks_that_wait();
  members[2].groups[1] = {"7", "mesh_tp", {2, 3}};
  members[3].groups[1] = {"7", "mesh_tp", {0, 3}};
  members[0].groups[1] = {"7", "mesh_tp", {0, 3}};
  EXPECT_TRUE(is_doubted(members));
  std::vector<TestDump> ranks = ranks_that_wait();
  ranks[2].groups[1] = {"7", "mesh_tp", {0, 1}};  // a group in which rank 2 is not
  EXPECT_TRUE(is_doubted(ranks));
  std::vector<TestDump> versions = ranks_that_wait();
  versions[1].version = "2.4";
  EXPECT_FALSE(is_doubted(versions));
}

/// Rank 0 waits for rank 1, whose dump is gone, and which is in a group of rank 2, for which rank 3 waits.
TEST(DoubtedVerdicts, ARankWithoutADumpThatMayWaitItselfIsNotNamed) {
  std::vector<TestDump> dumps = ranks_of_world(4);
  for (TestDump& dump : dumps) {
    dump.groups.push_back({"1", "undefined", {0, 1}});
    dump.groups.push_back({"2", "undefined", {1, 2, 3}});
  }
  dumps[0].groups.pop_back();
  dumps[0].calls = {pending(1, "nccl:all_reduce")};
  for (const std::size_t rank : {2U, 3U}) dumps[rank].groups.erase(dumps[rank].groups.begin() + 1);
  dumps[3].calls = {pending(1, "nccl:all_reduce")};
  dumps.erase(dumps.begin() + 1);
  const Inspection inspection = inspected(dumps);
  EXPECT_EQ(suspects(inspection), Ranks{2});
  EXPECT_EQ(inspection.explanation.unknown, Ranks{1});
  EXPECT_TRUE(inspection.verdict.ends_with(
      "Rank 1 has no whole dump, and others wait for it: it may wait, too, or have stopped. "
      "Rank 3 waits in nccl:all_reduce, call 1 of group '2' of ranks 1 to 3."))
      << inspection.verdict;
}

TEST(DoubtedVerdicts, FindingsWithoutASuspectAreSaid) {
  std::vector<TestDump> dumps = ranks_of_world(2);
  EXPECT_TRUE(inspected(dumps).verdict.starts_with("Nothing was found"));
  dumps[1].version = "2.4";
  const Inspection inspection = inspected(dumps);
  EXPECT_TRUE(inspection.suspects.empty());
  EXPECT_TRUE(inspection.verdict.starts_with("No rank is known to keep the others waiting"))
      << inspection.verdict;
}

TEST(DoubtedVerdicts, WhereNothingIsFoundMissingDumpsAreSaid) {
  std::vector<TestDump> dumps = ranks_of_world(4);
  EXPECT_NE(inspected(dumps).verdict.find("no rank has a pending call"), std::string::npos);
  EXPECT_NE(inspected(dumps).verdict.find("wait in something that is not recorded"), std::string::npos);
  dumps.pop_back();
  EXPECT_TRUE(inspected(dumps).verdict.ends_with(
      " But 1 of 4 ranks has no dump here (rank 3): what it did is not known, and the cause may be there."))
      << inspected(dumps).verdict;
}

/// Of two ranks one has ended, and the other waits in a call that it may not be meant to make.
TEST(DoubtedVerdicts, OfTwoRanksTheOneThatWaitsMayHaveMadeACallTooMany) {
  const auto doubts = [](int world) {
    std::vector<TestDump> dumps = ranks_of_world(world);
    for (TestDump& dump : dumps) dump.calls = {test::completed(0, "nccl:all_reduce", 1)};
    for (std::size_t rank = 1; rank < dumps.size(); ++rank)
      dumps[rank].calls.push_back(pending(0, "nccl:barrier", 2));
    const Inspection inspection = inspected(dumps);
    EXPECT_EQ(suspects(inspection), Ranks{0});
    return inspection.verdict.find("whether rank 1 has made a call that rank 0 is not meant to make") !=
           std::string::npos;
  };
  EXPECT_TRUE(doubts(2));
  EXPECT_FALSE(doubts(3));
}

/// Nothing holds rank 0 but a send after which it went on, and rank 1 has ended.
TEST(DoubtedVerdicts, OfTwoRanksOneMayWaitInNoCall) {
  std::vector<TestDump> dumps = ranks_of_world(2);
  dumps[0].calls = {test::message("nccl:send 0->1", 1, "scheduled"),
                    test::completed(0, "nccl:all_reduce", 1)};
  dumps[1].calls = {test::completed(0, "nccl:all_reduce", 1)};
  EXPECT_EQ(suspects(inspected(dumps)), Ranks{1});
}

/// Both ranks have come to a call, which rank 0 has completed, and rank 1 has not: its dump may be older.
TEST(DoubtedVerdicts, OfTwoRanksNoDeviceIsAccused) {
  for (const bool is_active_only : {false, true}) {
    std::vector<TestDump> dumps = ranks_of_world(2);
    for (TestDump& dump : dumps) dump.is_active_only = is_active_only;
    dumps[0].calls = {test::completed(0, "nccl:all_reduce", 1), test::completed(0, "nccl:barrier", 2)};
    dumps[1].calls = {test::completed(0, "nccl:all_reduce", 1), pending(0, "nccl:barrier", 2)};
    EXPECT_EQ(suspects(inspected(dumps)), Ranks{});
    EXPECT_TRUE(inspected(dumps).verdict.starts_with("The job was running when the dumps were written;"))
        << inspected(dumps).verdict;
  }
}

/// Rank 3 came last: most wait in a call that it has completed, and rank 2 in one of its pair.
TEST(DoubtedVerdicts, ARankThatCameLastAccusesNoDeviceOfItsPair) {
  std::vector<TestDump> dumps = ranks_of_world(4, true);
  for (TestDump& dump : dumps) dump.calls = {pending(0, "nccl:all_reduce", 1)};
  dumps[2].calls = {pending(1, "nccl:all_reduce", 1), pending(0, "nccl:all_reduce", 1)};
  dumps[3].calls = {test::completed(1, "nccl:all_reduce", 1), test::completed(0, "nccl:all_reduce", 1)};
  EXPECT_EQ(suspects(inspected(dumps)), Ranks{}) << inspected(dumps).verdict;
}

/// Rank 2 came last to the call in which all others waited when their dumps were written.
TEST(DoubtedVerdicts, TheSlowestRankIsSaid) {
  std::vector<TestDump> dumps = ranks_of_world(4);
  for (TestDump& dump : dumps) dump.calls = {pending(0, "nccl:all_reduce", 1)};
  dumps[2].calls = {test::completed(0, "nccl:all_reduce", 1)};
  dumps[2].calls[0].late_ns = 5'000'000'000;
  const Inspection inspection = inspected(dumps);
  EXPECT_EQ(suspects(inspection), Ranks{});
  EXPECT_TRUE(inspection.verdict.starts_with(
      "The job was running when the dumps were written; the slowest rank was 2: it came 5000 ms after the "
      "others to nccl:all_reduce, call 1 of the default group."))
      << inspection.verdict;
}

/// The ranks of a world in call 2, which only the last one has completed: it issued it 612 s after them.
std::vector<TestDump> ranks_with_a_late_one(int world) {
  std::vector<TestDump> dumps = ranks_of_world(world);
  for (TestDump& dump : dumps)
    dump.calls = {test::completed(0, "nccl:broadcast", 1), pending(0, "nccl:all_reduce", 2)};
  dumps.back().calls.back() = test::completed(0, "nccl:all_reduce", 2);
  dumps.back().calls.back().late_ns = 612'000'000'000;
  return dumps;
}

TEST(DoubtedVerdicts, ARankThatCameLateByTheClocksIsNamed) {
  for (const int world : {2, 4}) {
    const std::vector<TestDump> dumps = ranks_with_a_late_one(world);
    const Inspection inspection = inspected(dumps);
    EXPECT_EQ(suspects(inspection), Ranks{world - 1}) << inspection.verdict;
    EXPECT_TRUE(test::are_all(inspection, verify::SuspectKind::host));
    EXPECT_TRUE(inspection.verdict.starts_with(
        world == 2
            ? "Rank 1 came 612 s after rank 0 to nccl:all_reduce, call 2 of the default group, in which it "
              "waited when it wrote its dump."
            : "Rank 3 came 612 s after ranks 0 to 2 to nccl:all_reduce, call 2 of the default group, in "
              "which they waited when they wrote their dumps."))
        << inspection.verdict;
    EXPECT_TRUE(inspection.verdict.ends_with(
        " Its call before that was nccl:broadcast, call 1 of the default group."))
        << inspection.verdict;
  }
}

/// The clocks tell nothing where they differ before the call, too, or where the call is the first one.
TEST(DoubtedVerdicts, NobodyIsLateByClocksThatDoNotAgree) {
  std::vector<TestDump> dumps = ranks_with_a_late_one(4);
  dumps.back().calls.front().late_ns = 612'000'000'000;
  EXPECT_EQ(suspects(inspected(dumps)), Ranks{}) << inspected(dumps).verdict;
  dumps = ranks_with_a_late_one(4);
  for (TestDump& dump : dumps) dump.calls.erase(dump.calls.begin());
  EXPECT_EQ(suspects(inspected(dumps)), Ranks{}) << inspected(dumps).verdict;
}

/// Rank 2 is in an early dump, as its pair shows, and held there by another call before that of ranks 0 to 2.
TEST(DoubtedVerdicts, ACallIsNotStuckWhereAMemberWasHeldBeforeItInAnEarlyDump) {
  std::vector<TestDump> dumps = ranks_of_world(4, true);
  for (TestDump& dump : dumps) {
    dump.groups.push_back({"7", "undefined", {0, 1, 2}});
    dump.calls = {test::completed(1, "nccl:all_reduce", 1), pending(2, "nccl:all_reduce", 1)};
  }
  dumps[3].groups.pop_back();
  dumps[3].calls = {test::completed(1, "nccl:all_reduce", 1), test::completed(1, "nccl:all_reduce", 2)};
  dumps[2].calls.insert(dumps[2].calls.begin() + 1, pending(0, "nccl:all_reduce", 1));
  const Inspection inspection = inspected(dumps);
  EXPECT_EQ(suspects(inspection), Ranks{}) << inspection.verdict;
  EXPECT_NE(inspection.verdict.find("The dump of rank 2 was written before calls"), std::string::npos)
      << inspection.verdict;
}

/// All ranks wait in call 2 of the world but rank 0, which waits in call 5 of the dp group. Its ring has lost
/// that one: where "pg_status" counts the calls of all groups, and knows one such call, it holds the rank.
TEST(DoubtedVerdicts, ACallThatOnlyTheStatusKnowsHoldsItsRank) {
  std::vector<verify::RankDump> dumps;
  for (const int rank : {0, 1, 2, 3}) {
    const bool is_odd = rank == 0;
    verify::RankDump dump{.rank = rank, .groups = {}, .calls = {}};
    const auto add_group = [&](int number, const char* description, std::int64_t enqueued,
                               std::int64_t completed) {
      dump.groups.push_back({.number = number,
                             .name = std::to_string(number),
                             .description = description,
                             .ranks = "[0, 1, 2, 3]",
                             .last_enqueued = enqueued,
                             .last_started = -1,
                             .last_completed = completed});
    };
    add_group(0, "default_pg", is_odd ? 1 : 2, 1);
    add_group(1, "DATA_PARALLEL_GROUP", is_odd ? 6 : 4, 4);
    add_group(2, "CONTEXT_PARALLEL_GROUP", 4, 4);
    verify::FlightCall call{.record_id = 40, .collective_seq_id = is_odd ? 6 : 2, .op_id = 40};
    call.group = is_odd ? 1 : 0;
    call.profiling_name = "nccl:all_reduce";
    call.input_sizes = call.output_sizes = {{4}};
    call.input_dtype = call.output_dtype = "Float";
    dump.calls.push_back(std::move(call));
    dumps.push_back(std::move(dump));
  }
  const Inspection known = verify::inspect(test::read_dumps(dumps), {}, false);
  EXPECT_EQ(suspects(known), Ranks{0}) << known.verdict;
  EXPECT_NE(known.verdict.find("rank 0 is in call 5 of the dp group of ranks 0 to 3"), std::string::npos)
      << known.verdict;
  // Of two calls that are lost, in two groups, either may hold it.
  dumps[0].groups[2].last_enqueued = 5;
  EXPECT_EQ(suspects(verify::inspect(test::read_dumps(dumps), {}, false)), Ranks{});
}

/// A call that is stuck is named, and who has completed it.
TEST(DoubtedVerdicts, ABroadcastThatEndedOnItsRootIsNotSaidToHaveEndedNowhere) {
  std::vector<TestDump> dumps = ranks_of_world(3);
  for (TestDump& dump : dumps) dump.calls = {pending(0, "nccl:broadcast", 1)};
  EXPECT_TRUE(inspected(dumps).verdict.starts_with(
      "Ranks 0 to 2 are in nccl:broadcast, call 1 of the default group, to which every member has come and "
      "which none has completed."))
      << inspected(dumps).verdict;
  EXPECT_NE(inspected(dumps).verdict.find("TORCH_NCCL_ENABLE_TIMING=1"), std::string::npos);
  dumps[0].calls = {test::completed(0, "nccl:broadcast", 1)};
  const Inspection rooted = inspected(dumps);
  EXPECT_TRUE(rooted.verdict.starts_with(
      "Ranks 1 and 2 are in nccl:broadcast, call 1 of the default group, to which every member has come and "
      "which rank 0 has completed (a broadcast may end on its root only)."))
      << rooted.verdict;
  EXPECT_EQ(rooted.findings.at(0).text,
            "Ranks 1 and 2 have not completed nccl:broadcast, call 1 of the default group, which rank 0 has "
            "completed.");
}

TEST(DoubtedVerdicts, ACallAboutWhichMembersDisagreeIsNotSaidToBeStuck) {
  std::vector<TestDump> dumps = ranks_of_world(3);
  for (TestDump& dump : dumps) dump.calls = {pending(0, dump.rank == 1 ? "nccl:barrier" : "nccl:all_reduce")};
  const Inspection inspection = inspected(dumps);
  EXPECT_TRUE(inspection.verdict.starts_with("Call 1 of the default group differs in "))
      << inspection.verdict;
  EXPECT_FALSE(has_finding(inspection, "stuck"));
}

}  // namespace
