// Proves that an inspection names the ranks that keep a job waiting, and no others: for jobs that are played
// to their hang (hung_job.h), for each way in which ranks can disagree, and for dumps that contradict each
// other.

#include "verify/inspect/inspection.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <memory>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>
#include <string>
#include <vector>

#include "tests/support/refusal_code.h"
#include "tests/verify/inspect/hung_job.h"
#include "tests/verify/inspect/small_jobs.h"
#include "verify/inspect/inspection_text.h"
#include "verify/output/phrases.h"

namespace {

using test::are_all;
using test::completed;
using test::has_finding;
using test::HungJob;
using test::inspected;
using test::pending;
using test::pending_message;
using test::ranks_of_world;
using test::suspects;
using test::tells;
using test::TestDump;
using verify::Inspection;
using verify::SuspectKind;

using Ranks = std::vector<int>;

Inspection inspected(const HungJob& job) { return inspected(test::dumps_of(job, test::hang_of(job))); }

HungJob drawn_training() {
  return test::training(*rc::gen::inRange(1, 4), *rc::gen::inRange(1, 4), *rc::gen::inRange(1, 4),
                        *rc::gen::inRange(1, 4));
}

int drawn_call(const HungJob& job, int rank) {
  return *rc::gen::inRange(0, static_cast<int>(job.programs[static_cast<std::size_t>(rank)].size()));
}

int drawn_rank(const HungJob& job) { return *rc::gen::inRange(0, static_cast<int>(job.programs.size())); }

/// Draws how much of a job the dumps have.
std::vector<TestDump> drawn_dumps(const HungJob& job, const test::Hang& hang) {
  std::vector<TestDump> dumps = test::dumps_of(job, hang);
  const bool has_status = *rc::gen::arbitrary<bool>(), is_active_only = *rc::gen::arbitrary<bool>();
  for (TestDump& dump : dumps) {
    dump.has_status = has_status;
    dump.is_active_only = is_active_only;
  }
  return dumps;
}

/// Whether the dumps of a hang are also those of ranks that made one call more than the others, and are
/// explained so: fewer ranks wait than stopped (edits_of_calls.cpp).
bool look_like_calls_ahead(const Inspection& inspection, const HungJob& job) {
  const auto stopped = std::ranges::count_if(job.stops_at, [](int call) { return call >= 0; });
  return inspection.explanation.kind == verify::EditKind::extra && std::ssize(suspects(inspection)) < stopped;
}

RC_GTEST_PROP(InspectionLaws, RanksThatStopAreTheSuspectsWhereCallsBlock, ()) {
  HungJob job = drawn_training();
  for (int i = *rc::gen::inRange(0, 4); i > 0; --i) {
    const int rank = drawn_rank(job);
    job.stops_at[static_cast<std::size_t>(rank)] = drawn_call(job, rank);
  }
  const test::Hang hang = test::hang_of(job);
  const Inspection inspection =
      verify::inspect(test::recordings_of(drawn_dumps(job, hang), *rc::gen::arbitrary<bool>()), {}, false);
  RC_PRE(!look_like_calls_ahead(inspection, job));
  RC_ASSERT(suspects(inspection) == hang.idle_and_awaited);
  RC_ASSERT(are_all(inspection, SuspectKind::host));
  RC_ASSERT(inspection.has_findings() == !hang.idle_and_awaited.empty());
}

RC_GTEST_PROP(InspectionLaws, ARankThatStopsIsTheSuspectHoweverFarHostsAreAhead, ()) {
  HungJob job = drawn_training();
  job.run_ahead = *rc::gen::inRange(1, 12);
  const int rank = drawn_rank(job);
  job.stops_at[static_cast<std::size_t>(rank)] = drawn_call(job, rank);
  const test::Hang hang = test::hang_of(job);
  const Ranks expected = hang.idle_and_awaited;
  RC_ASSERT(expected.size() <= 1U);
  RC_ASSERT(suspects(inspected(drawn_dumps(job, hang))) == expected);
}

/// Where several hosts stop far ahead of their devices, one may hide behind the other, but no other rank is
/// named.
RC_GTEST_PROP(InspectionLaws, NoRankIsNamedThatHasNotStopped, ()) {
  HungJob job = drawn_training();
  job.run_ahead = *rc::gen::inRange(1, 12);
  for (int i = 0; i < 2; ++i) {
    const int rank = drawn_rank(job);
    job.stops_at[static_cast<std::size_t>(rank)] = drawn_call(job, rank);
  }
  const test::Hang hang = test::hang_of(job);
  const Inspection inspection = inspected(drawn_dumps(job, hang));
  RC_PRE(!look_like_calls_ahead(inspection, job));
  for (const int rank : suspects(inspection)) RC_ASSERT(job.stops_at[static_cast<std::size_t>(rank)] >= 0);
  RC_ASSERT(inspection.suspects.empty() == hang.idle_and_awaited.empty());
}

/// A device that stopped: its rank has issued calls, and does not see that they end, as the others do.
RC_GTEST_PROP(InspectionLaws, ADeviceThatStoppedIsTheSuspect, ()) {
  // Of fewer than four ranks, dumps may be older.
  HungJob job = test::training(*rc::gen::inRange(2, 4), *rc::gen::inRange(2, 4), *rc::gen::inRange(1, 4), 3);
  const int broken = drawn_rank(job);
  const auto& program = job.programs[static_cast<std::size_t>(broken)];
  job.stops_at[static_cast<std::size_t>(broken)] = *rc::gen::inRange(3, static_cast<int>(program.size()));
  const test::Hang hang = test::hang_of(job);
  test::Hang seen = hang;
  auto& ends = seen.is_completed[static_cast<std::size_t>(broken)];
  bool hides_a_collective = false;
  for (std::size_t i = *rc::gen::inRange<std::size_t>(0, 3); i < ends.size(); ++i) {
    hides_a_collective =
        hides_a_collective || (ends[i] && program[i].operation.find(' ') == std::string::npos);
    ends[i] = false;
  }
  RC_PRE(hides_a_collective);
  std::vector<TestDump> dumps = test::dumps_of(job, seen);
  const bool has_status = *rc::gen::arbitrary<bool>();
  for (TestDump& dump : dumps) dump.is_active_only = dump.has_status = has_status;
  const Inspection inspection = inspected(dumps);
  RC_ASSERT(suspects(inspection) == Ranks{broken});
  RC_ASSERT(are_all(inspection, SuspectKind::device));
}

RC_GTEST_PROP(InspectionLaws, ARankWithoutADumpIsTheSuspectWhereOthersWaitForIt, ()) {
  HungJob job = test::training(*rc::gen::inRange(2, 4), *rc::gen::inRange(1, 4), *rc::gen::inRange(1, 4), 2);
  const int rank = drawn_rank(job);
  job.stops_at[static_cast<std::size_t>(rank)] = drawn_call(job, rank);
  const test::Hang hang = test::hang_of(job);
  std::vector<TestDump> dumps = drawn_dumps(job, hang);
  RC_ASSERT(hang.idle_and_awaited == Ranks{rank});
  dumps.erase(dumps.begin() + rank);
  const Inspection inspection = inspected(dumps);
  RC_ASSERT(suspects(inspection) == Ranks{rank});
  RC_ASSERT(are_all(inspection, SuspectKind::absent));
}

RC_GTEST_PROP(InspectionLaws, TheLayoutOfATrainingIsInferred, ()) {
  const int tp = *rc::gen::inRange(1, 4), dp = *rc::gen::inRange(1, 4), pp = *rc::gen::inRange(1, 4);
  const Inspection inspection = inspected(test::training(tp, dp, pp, 1));
  RC_ASSERT(inspection.layout.has_value());
  RC_ASSERT(inspection.layout->layout.tp == tp && inspection.layout->layout.pp == pp);
  RC_ASSERT(inspection.layout->comparison.is_equal());
  RC_ASSERT(!inspection.has_findings());
}

// ---- every verdict

TEST(Inspection, CrossedGroupsAreACircle) {
  std::vector<TestDump> dumps = ranks_of_world(4, true);
  dumps[0].calls = {pending(1, "gloo:all_reduce")};
  for (std::size_t rank = 1; rank < 4; ++rank) dumps[rank].calls = {pending(0, "gloo:all_reduce")};
  const Inspection inspection = inspected(dumps);
  EXPECT_EQ(suspects(inspection), Ranks{0});
  EXPECT_TRUE(are_all(inspection, SuspectKind::order));
  EXPECT_NE(inspection.verdict.find("has made other calls than the other ranks;"), std::string::npos)
      << inspection.verdict;
  EXPECT_EQ(inspection.explanation.circles, (std::vector<Ranks>{{0, 1}}));
  EXPECT_TRUE(has_finding(inspection, "circle"));
}

/// Two groups of the same four ranks: one rank calls them in another order than the three others.
TEST(Inspection, TheRankThatIsAloneInACircleIsNamed) {
  std::vector<TestDump> dumps = ranks_of_world(4);
  for (TestDump& dump : dumps) {
    dump.groups.push_back({"1", "default_pg", {0, 1, 2, 3}});
    dump.calls = {pending(dump.rank == 2 ? 1 : 0, "gloo:all_reduce")};
  }
  const Inspection inspection = inspected(dumps);
  EXPECT_EQ(suspects(inspection), Ranks{2});
  EXPECT_TRUE(are_all(inspection, SuspectKind::order));
}

/// The world is destroyed and made again, as between two phases of a job. Rank 2 does not come to the first
/// call of the new one.
TEST(Inspection, AGroupThatIsMadeAgainIsAnotherGroup) {
  std::vector<TestDump> dumps = ranks_of_world(4);
  for (TestDump& dump : dumps) {
    dump.groups.push_back(dump.groups[0]);
    for (std::int64_t call = 1; call <= 3; ++call)
      dump.calls.push_back({.operation = "nccl:all_reduce", .sequence = call});
    if (dump.rank != 2) dump.calls.push_back(pending(1, "nccl:all_reduce", 1));
  }
  const Inspection inspection = inspected(dumps);
  EXPECT_EQ(suspects(inspection), Ranks{2}) << inspection.verdict;
  EXPECT_TRUE(are_all(inspection, SuspectKind::host)) << inspection.verdict;
}

/// Hosts that run ahead issue all calls, so only the order on the devices tells.
TEST(Inspection, CrossedGroupsAreACircleWhereHostsRunAhead) {
  std::vector<TestDump> dumps = ranks_of_world(2, true);
  dumps[0].calls = {pending(0, "nccl:all_reduce"), pending(1, "nccl:all_reduce")};
  dumps[1].calls = {pending(1, "nccl:all_reduce"), pending(0, "nccl:all_reduce")};
  EXPECT_EQ(suspects(inspected(dumps)), (Ranks{0, 1}));
}

TEST(Inspection, ARankThatIsOneCallAheadOfAllOthersIsNamedInTheirPlace) {
  std::vector<TestDump> dumps = ranks_of_world(4);
  for (TestDump& dump : dumps) dump.calls = {{.operation = "nccl:all_reduce"}};
  dumps[2].calls.push_back(pending(0, "nccl:all_reduce", 2));
  const Inspection inspection = inspected(dumps);
  EXPECT_EQ(suspects(inspection), Ranks{2});
  EXPECT_TRUE(are_all(inspection, SuspectKind::order));
  EXPECT_TRUE(inspection.verdict.starts_with("Rank 2 made calls that the others did not make"))
      << inspection.verdict;
  // With two ranks, either may be wrong; where another rank waits, too, one has stopped.
  std::vector<TestDump> two = ranks_of_world(2);
  two[1].calls = {pending(0, "nccl:all_reduce")};
  EXPECT_EQ(suspects(inspected(two)), Ranks{0});
  for (const std::size_t rank : {0U, 3U}) dumps[rank].calls.push_back(pending(0, "nccl:all_reduce", 2));
  EXPECT_EQ(suspects(inspected(dumps)), Ranks{1});
}

/// A batch or step more is several calls, of which the host has issued those behind the first.
TEST(Inspection, ARankThatIsAStepAheadOfAllOthersIsNamedInTheirPlace) {
  std::vector<TestDump> dumps = ranks_of_world(4);
  for (TestDump& dump : dumps) dump.calls = {{.operation = "nccl:all_gather"}};
  for (std::int64_t call = 2; call <= 4; ++call)
    dumps[2].calls.push_back(pending(0, "nccl:all_gather", call));
  const Inspection inspection = inspected(dumps);
  EXPECT_EQ(suspects(inspection), Ranks{2});
  EXPECT_TRUE(inspection.verdict.starts_with("Rank 2 made calls that the others did not make"))
      << inspection.verdict;
  EXPECT_NE(inspection.suspects[0].reason.find("it is 3 calls ahead of them"), std::string::npos)
      << inspection.suspects[0].reason;
}

/// Only the last stage of a pipeline calls once more over its data-parallel group, and a rank of it does not.
TEST(Inspection, RanksAreNotAheadWhereFewerOfTheirGroupHaveNotCome) {
  std::vector<TestDump> dumps = ranks_of_world(5);
  for (TestDump& dump : dumps) {
    const bool is_last = dump.rank > 1;
    dump.groups.push_back(
        {is_last ? "2" : "1", "DATA_PARALLEL_GROUP", is_last ? Ranks{2, 3, 4} : Ranks{0, 1}});
    dump.calls = {{.group = 1, .operation = "nccl:all_reduce"}};
    if (dump.rank > 2) dump.calls.push_back(pending(1, "nccl:all_reduce", 2));
  }
  const Inspection inspection = inspected(dumps);
  EXPECT_EQ(suspects(inspection), Ranks{2});
  EXPECT_TRUE(are_all(inspection, SuspectKind::host));
}

TEST(Inspection, SendsThatWaitForEachOtherAreACircle) {
  std::vector<TestDump> dumps = ranks_of_world(2);
  dumps[0].calls = {pending_message("nccl:send 0->1")};
  dumps[1].calls = {pending_message("nccl:send 1->0")};
  const Inspection inspection = inspected(dumps);
  EXPECT_EQ(suspects(inspection), (Ranks{0, 1}));
  EXPECT_TRUE(are_all(inspection, SuspectKind::order));
}

TEST(Inspection, ARecvWithoutASendWaitsForItsPeer) {
  std::vector<TestDump> dumps = ranks_of_world(3);
  dumps[2].calls = {pending_message("nccl:recv 2<-0")};
  dumps[1].calls = {pending(0, "nccl:barrier")};
  const Inspection inspection = inspected(dumps);
  EXPECT_EQ(suspects(inspection), Ranks{0});
  EXPECT_TRUE(has_finding(inspection, "message"));
}

struct Mistake {
  const char* what;
  void (*make)(test::DumpedTestCall& call);
};
void PrintTo(const Mistake& mistake, std::ostream* out) { *out << mistake.what; }

class Disagreement : public testing::TestWithParam<Mistake> {};
INSTANTIATE_TEST_SUITE_P(
    Inspection, Disagreement,
    testing::Values(Mistake{"operation",
                            [](test::DumpedTestCall& call) { call.operation = "nccl:broadcast"; }},
                    Mistake{"dtype", [](test::DumpedTestCall& call) { call.dtype = "Double"; }},
                    Mistake{"size", [](test::DumpedTestCall& call) { call.elements = 5; }}));

TEST_P(Disagreement, TheSmallerPartyIsNamed) {
  std::vector<TestDump> dumps = ranks_of_world(4);
  for (TestDump& dump : dumps)
    dump.calls = {{.operation = "nccl:all_reduce"}, pending(0, "nccl:all_reduce", 2)};
  GetParam().make(dumps[2].calls[1]);
  const Inspection inspection = inspected(dumps);
  EXPECT_EQ(suspects(inspection), Ranks{2});
  EXPECT_TRUE(are_all(inspection, SuspectKind::order));
  EXPECT_TRUE(has_finding(inspection, GetParam().what));
  EXPECT_EQ(inspection.report.first, "Look at rank 2 first.");
  EXPECT_TRUE(inspection.verdict.starts_with("Call 2 of the default group differs in "))
      << inspection.verdict;
}

/// A rank that leaves a call out makes every later one under the wrong number: the first is told, all on
/// demand.
TEST(Inspection, TheFirstDisagreementOfAGroupIsToldAndAllOnDemand) {
  std::vector<TestDump> dumps = ranks_of_world(3);
  for (TestDump& dump : dumps) {
    const char* const operations[] = {"nccl:all_reduce", "nccl:broadcast", "nccl:all_gather", "nccl:barrier"};
    std::int64_t sequence = 0;
    for (const char* operation : operations) {
      if (dump.rank == 1 && sequence == 1 && operation == operations[1]) continue;
      dump.calls.push_back({.operation = operation, .sequence = ++sequence});
    }
    if (dump.rank != 1) dump.calls.back().state = "scheduled";
  }
  const auto count = [](const Inspection& inspection) {
    return std::count_if(inspection.findings.begin(), inspection.findings.end(),
                         [](const auto& finding) { return finding.what == "operation"; });
  };
  EXPECT_EQ(suspects(inspected(dumps)), Ranks{1});
  EXPECT_EQ(count(inspected(dumps)), 1);
  EXPECT_EQ(count(inspected(dumps, true)), 2);
}

TEST(Inspection, HalvesOfAMessageAreCompared) {
  std::vector<TestDump> dumps = ranks_of_world(2);
  dumps[0].calls = {pending_message("nccl:send 0->1")};
  dumps[1].calls = {pending_message("nccl:recv 1<-0")};
  dumps[1].calls[0].elements = 8;
  const Inspection inspection = inspected(dumps);
  EXPECT_EQ(suspects(inspection), (Ranks{0, 1}));
  EXPECT_TRUE(has_finding(inspection, "size"));
}

TEST(Inspection, SizesOfCoalescedAllReducesAreCompared) {
  std::vector<TestDump> dumps = ranks_of_world(3);
  for (TestDump& dump : dumps)
    dump.calls = {{.operation = "nccl:allreduce_coalesced", .elements = dump.rank == 1 ? 5 : 4}};
  EXPECT_TRUE(has_finding(inspected(dumps), "size"));
}

/// Every member of a gather has an input, and of a scatter the root alone.
TEST(Inspection, DTypesOfAGatherAreComparedAndNotThoseOfAScatter) {
  std::vector<TestDump> dumps = ranks_of_world(3);
  for (TestDump& dump : dumps)
    dump.calls = {{.operation = "nccl:gather", .dtype = dump.rank == 1 ? "Double" : "Float"}};
  EXPECT_TRUE(has_finding(inspected(dumps), "dtype"));
  for (TestDump& dump : dumps) dump.calls[0].operation = "nccl:scatter";
  EXPECT_FALSE(inspected(dumps).has_findings());
}

/// Both ranks receive before they send: of one batch, the messages meet; of two, each rank waits in its recv.
TEST(Inspection, MessagesOfTwoNumbersAreNoBatch) {
  std::vector<TestDump> dumps = ranks_of_world(2);
  const auto message = [](const char* operation, std::int64_t number) {
    test::DumpedTestCall call = pending_message(operation);
    call.p2p_sequence = number;
    return call;
  };
  dumps[0].calls = {message("nccl:recv 0<-1", 1), message("nccl:send 0->1", 2)};
  dumps[1].calls = {message("nccl:recv 1<-0", 1), message("nccl:send 1->0", 2)};
  EXPECT_EQ(inspected(dumps).explanation.circles.size(), 1U);
  for (TestDump& dump : dumps) dump.calls[1].p2p_sequence = 1;
  EXPECT_TRUE(inspected(dumps).explanation.circles.empty());
}

/// Of active calls alone, a member is taken to have completed what comes before the first that it has, but
/// not against its own count: rank 1 has completed none, and its dump has the second call alone.
TEST(Inspection, NoCompletionIsInferredAgainstACount) {
  std::vector<TestDump> dumps = ranks_of_world(3);
  for (TestDump& dump : dumps) {
    dump.calls = {pending(0, "nccl:all_reduce", 1), pending(0, "nccl:all_reduce", 2)};
    dump.is_active_only = true;
  }
  dumps[1].calls.erase(dumps[1].calls.begin());
  const Inspection counted = inspected(dumps);
  EXPECT_FALSE(std::ranges::any_of(counted.suspects, [](const auto& suspect) {
    return suspect.reason.find("has completed call 1") != std::string::npos;
  })) << counted.verdict;
  for (TestDump& dump : dumps) dump.has_status = false;
  EXPECT_EQ(suspects(inspected(dumps)), Ranks{});
}

TEST(Inspection, ACallThatDoesNotEndAnywhereIsStuck) {
  std::vector<TestDump> dumps = ranks_of_world(3);
  for (TestDump& dump : dumps) dump.calls = {pending(0, "nccl:all_reduce")};
  EXPECT_EQ(suspects(inspected(dumps)), (Ranks{0, 1, 2}));
  EXPECT_TRUE(are_all(inspected(dumps), SuspectKind::device));
  dumps[0].calls[0].state = dumps[2].calls[0].state = "started";
  EXPECT_EQ(suspects(inspected(dumps)), Ranks{1});
}

/// The splits of an all_to_all are not in a dump, so its sizes differ from rank to rank.
TEST(Inspection, SizesOfAnAllToAllAreNotCompared) {
  std::vector<TestDump> dumps = ranks_of_world(2);
  for (TestDump& dump : dumps) dump.calls = {{.operation = "nccl:all_to_all", .elements = 10 + dump.rank}};
  EXPECT_FALSE(inspected(dumps).has_findings());
  for (TestDump& dump : dumps) dump.calls[0].operation = "nccl:all_reduce";
  const Inspection inspection = inspected(dumps);
  EXPECT_TRUE(has_finding(inspection, "size"));
  EXPECT_TRUE(inspection.suspects.empty());  // nothing waits for it
}

TEST(Inspection, MembersOnWhichRanksDisagreeAreAFinding) {
  std::vector<TestDump> dumps = ranks_of_world(3);
  dumps[0].groups.push_back({"1", "mesh_tp", {0, 1}});
  dumps[1].groups.push_back({"1", "mesh_tp", {1, 2}});
  dumps[2].groups.push_back({"1", "mesh_tp", {1, 2}});
  const Inspection inspection = inspected(dumps);
  EXPECT_TRUE(has_finding(inspection, "members"));
  EXPECT_FALSE(has_finding(inspected(ranks_of_world(3)), "members"));
}

TEST(Inspection, ARankThatIsInNoneOfItsGroupsIsAFinding) {
  std::vector<TestDump> dumps = ranks_of_world(2);
  dumps[1].rank = 7;
  EXPECT_TRUE(has_finding(inspected(dumps), "rank"));
}

TEST(Inspection, ADumpThatHoldsNothingIsARankWithoutADumpAndSaidSo) {
  std::vector<TestDump> dumps = ranks_of_world(3);
  for (TestDump& dump : dumps) dump.calls = {pending(0, "nccl:all_reduce")};
  dumps.pop_back();
  verify::Recordings recordings = test::recordings_of(dumps);
  recordings.blank.push_back({.rank = 2, .path = "dump_2", .bytes = 7});
  const Inspection inspection = verify::inspect(std::move(recordings), {}, false);
  EXPECT_EQ(suspects(inspection), Ranks{2});
  EXPECT_TRUE(are_all(inspection, SuspectKind::absent));
  EXPECT_TRUE(has_finding(inspection, "truncated"));
  EXPECT_EQ(inspection.suspects[0].reason,
            "Its dump ends after 7 bytes, before its first field, and other ranks wait for it: it may have "
            "died.");
  EXPECT_TRUE(inspection.verdict.starts_with("Rank 2 has no dump that is whole"));
}

TEST(Inspection, DumpsOfSeveralJobsAreAFinding) {
  std::vector<TestDump> dumps = ranks_of_world(4);
  dumps[3].groups[0].ranks = {0, 1, 2, 3, 4, 5, 6, 7};
  EXPECT_TRUE(has_finding(inspected(dumps), "world"));
  dumps = ranks_of_world(2);
  dumps[1].version = "2.4";
  EXPECT_TRUE(has_finding(inspected(dumps), "version"));
}

/// Ranks without a dump are told once: in the verdict where nobody is named, and below it otherwise.
TEST(Inspection, MissingDumpsAreToldOnce) {
  std::vector<TestDump> dumps = ranks_of_world(4);
  dumps.pop_back();
  EXPECT_FALSE(tells(inspected(dumps), "no dump here"));
  EXPECT_NE(inspected(dumps).verdict.find("But 1 of 4 ranks has no dump here (rank 3)"), std::string::npos);
  for (const std::size_t rank : {0U, 1U}) dumps[rank].calls = {test::pending(0, "nccl:all_reduce")};
  EXPECT_EQ(suspects(inspected(dumps)), std::vector<int>{2});
  EXPECT_TRUE(tells(inspected(dumps), "1 of 4 ranks has no dump here (rank 3): what it did is not known."));
  EXPECT_EQ(inspected(dumps).verdict.find("no dump here"), std::string::npos);
}

TEST(Inspection, SaysWhatItCannotTell) {
  std::vector<TestDump> dumps = ranks_of_world(3);
  for (TestDump& dump : dumps) dump.version = "3.1";
  dumps[0].calls = {{.operation = "nccl:all_reduce", .record_id = 40}};
  dumps.pop_back();
  const Inspection inspection = inspected(dumps);
  EXPECT_TRUE(tells(inspection, "no reduction operation"));
  EXPECT_TRUE(tells(inspection, "The version '3.1' of a dump is not known"));
  EXPECT_FALSE(tells(inspection, "no dump here"));  // the verdict has it where nobody is a suspect
  EXPECT_TRUE(tells(inspection, "1 of 2 dumps begins with a later call"));
  EXPECT_TRUE(tells(inspection, "no stack frames"));
}

TEST(Inspection, ADumpThatEndsBeforeCallsThatHaveCompletedIsSaidToBeEarly) {
  std::vector<TestDump> dumps = ranks_of_world(3);
  for (TestDump& dump : dumps) {
    for (std::int64_t call = 1; call <= (dump.rank == 1 ? 2 : 4); ++call)
      dump.calls.push_back({.operation = "nccl:all_reduce", .sequence = call});
  }
  EXPECT_TRUE(inspected(dumps).suspects.empty());
  EXPECT_TRUE(tells(inspected(dumps),
                    "The dump of rank 1 ends before calls that others have completed (call 4 of the default "
                    "group on rank 0): it was written early"));
  for (TestDump& dump : dumps) {
    for (auto& call : dump.calls) call.operation = "gloo:all_reduce";
  }
  EXPECT_TRUE(tells(inspected(dumps), "written early"));
  // Where a member has no dump, calls of gloo may have ended with errors.
  dumps.pop_back();
  EXPECT_FALSE(tells(inspected(dumps), "written early"));
}

/// Rank 1 is written while its second call runs; the others have completed two calls more, which need it.
TEST(Inspection, AnEarlyDumpSaysNothingOfItsDevice) {
  std::vector<TestDump> dumps = ranks_of_world(4);
  for (TestDump& dump : dumps) {
    for (std::int64_t call = 1; call <= 4; ++call)
      dump.calls.push_back({.operation = "nccl:all_reduce", .sequence = call});
  }
  dumps[1].calls.resize(1);
  dumps[1].calls.push_back(pending(0, "nccl:all_reduce", 2));
  const Inspection early = inspected(dumps);
  EXPECT_EQ(suspects(early), Ranks{});
  EXPECT_NE(early.verdict.find("The dump of rank 1 was written before calls that others have completed"),
            std::string::npos)
      << early.verdict;
  // Its host has made all calls, and the others wait for it: its device is behind.
  for (std::int64_t call = 3; call <= 5; ++call)
    dumps[1].calls.push_back(pending(0, "nccl:all_reduce", call));
  EXPECT_EQ(suspects(inspected(dumps)), Ranks{});
  for (const std::size_t rank : {0U, 2U, 3U}) dumps[rank].calls.push_back(pending(0, "nccl:all_reduce", 5));
  EXPECT_EQ(suspects(inspected(dumps)), Ranks{1});
}

/// The same dumps with active calls alone: "pg_status" counts the calls that rank 1 has not made.
TEST(Inspection, AnEarlyDumpOfActiveCallsSaysNothingOfItsDevice) {
  std::vector<TestDump> dumps = ranks_of_world(4);
  for (TestDump& dump : dumps) {
    dump.is_active_only = true;
    for (std::int64_t call = 1; call <= 4; ++call)
      dump.calls.push_back({.operation = "nccl:all_reduce", .sequence = call});
  }
  for (const std::size_t rank : {0U, 2U}) dumps[rank].calls.push_back(pending(0, "nccl:all_reduce", 5));
  dumps[1].calls.resize(1);
  dumps[1].calls.push_back(pending(0, "nccl:all_reduce", 2));
  const Inspection early = inspected(dumps);
  EXPECT_EQ(suspects(early), Ranks{}) << early.verdict;
  EXPECT_TRUE(tells(early, "The dump of rank 1 ends before calls that others have completed"));
  // A broadcast ends on its root before others have come to it, so a rank in one may still be there.
  dumps[1].calls.back().operation = "nccl:broadcast";
  EXPECT_FALSE(tells(inspected(dumps), "The dump of rank 1 ends before"));
}

/// Three ranks wait in call 3, which rank 0 has completed: it came to it after their dumps had been written.
TEST(Inspection, TheDevicesOfMostMembersAreNotSaidToHaveStopped) {
  std::vector<TestDump> dumps = ranks_of_world(4);
  for (TestDump& dump : dumps) {
    for (std::int64_t call = 1; call <= 3; ++call)
      dump.calls.push_back({.operation = "nccl:all_reduce", .sequence = call});
    if (dump.rank > 0) dump.calls.back().state = "scheduled";
  }
  const Inspection late = inspected(dumps);
  EXPECT_EQ(suspects(late), Ranks{}) << late.verdict;
  EXPECT_NE(late.verdict.find(
                "Calls are pending in the dumps of ranks 1 to 3 that others have completed: they are older"),
            std::string::npos)
      << late.verdict;
  // So were those of other groups where most dumps were: rank 1 waits in a call of a pair, too.
  for (TestDump& dump : dumps) dump.groups.push_back({"1", "undefined", {0, 1}});
  dumps[0].calls.push_back(completed(1, "nccl:all_reduce", 1));
  dumps[1].calls.back() = pending(1, "nccl:all_reduce", 1);
  EXPECT_EQ(suspects(inspected(dumps)), Ranks{});
  for (TestDump& dump : dumps) dump.calls.resize(3, completed(0, "nccl:all_reduce", 3));
  dumps[1].calls.back() = completed(0, "nccl:all_reduce", 3);
  // One of four is behind, and the others wait for it.
  for (const std::size_t rank : {1U, 2U}) dumps[rank].calls.back().state = "completed";
  EXPECT_EQ(suspects(inspected(dumps)), Ranks{});
  for (TestDump& dump : dumps) dump.calls.push_back(pending(0, "nccl:all_reduce", 4));
  EXPECT_EQ(suspects(inspected(dumps)), Ranks{3});
  EXPECT_TRUE(are_all(inspected(dumps), SuspectKind::device));
}

TEST(Inspection, ARankWhoseDumpHasNoCallsIsNotSaidToHaveIssuedNone) {
  std::vector<TestDump> dumps = ranks_of_world(2);
  dumps[0].calls = {pending(0, "nccl:all_reduce")};
  const Inspection inspection = inspected(dumps);
  ASSERT_EQ(suspects(inspection), Ranks{1});
  EXPECT_EQ(inspection.suspects[0].reason,
            "It has no pending call: its dump has no call of the default group, and rank 0 waits in call 1.");
}

/// Groups of the same ranks and description are told apart by their names, and by their order where the names
/// differ between ranks.
TEST(Inspection, GroupsOfTheSameRanksAreToldApart) {
  for (const bool names_differ : {false, true}) {
    std::vector<TestDump> dumps = ranks_of_world(2);
    for (TestDump& dump : dumps) {
      const std::string suffix = names_differ && dump.rank == 1 ? "b" : "";
      dump.groups.push_back({"10" + suffix, "undefined", {0, 1}});
      dump.groups.push_back({"20" + suffix, "undefined", {0, 1}});
      dump.calls = {pending(dump.rank == 0 ? 1 : 2, "nccl:all_reduce")};
    }
    EXPECT_EQ(suspects(inspected(dumps)), (Ranks{0, 1}));
    EXPECT_TRUE(are_all(inspected(dumps), SuspectKind::order));
  }
}

/// A world whose number has 240 divisors, and a group that fits no layout of it.
TEST(Inspection, ALayoutThatCannotBeIsNotSearchedForLong) {
  constexpr int kRanks = 720720;
  TestDump dump;
  dump.rank = kRanks - 1;
  dump.groups = {{"1", "MODEL_PARALLEL_GROUP", {}}};
  for (int rank = 0; rank < 16; ++rank) dump.groups[0].ranks.push_back(rank);
  dump.groups[0].ranks.push_back(dump.rank);
  dump.calls = {pending(0, "nccl:all_reduce")};
  const Inspection inspection = inspected({dump});
  EXPECT_EQ(inspection.job.world_size, kRanks);
  EXPECT_FALSE(inspection.layout);
}

/// Every group is of all ranks, and has a description of its own.
TEST(Inspection, GroupsHaveAsManyMembersInAllAsTheyMay) {
  const auto members = std::make_shared<const std::vector<int>>(verify::kMostRecordedRanks, 0);
  const std::size_t most = verify::kMostMembers / members->size();
  const auto job_of_groups = [&](std::size_t count) {
    verify::Recordings recordings;
    recordings.ranks.push_back({.rank = 0});
    for (std::size_t i = 0; i < count; ++i)
      recordings.ranks[0].groups.push_back({"1", std::to_string(i), members});
    return verify::job_of(std::move(recordings));
  };
  EXPECT_EQ(job_of_groups(most).groups.size(), most);
  EXPECT_EQ(test::refusal_code([&] { job_of_groups(most + 1); }), "dump_limit");
}

/// Calls without a number, as of a recorder that counts none, are on no other rank.
TEST(Inspection, CallsWithoutANumberTellNothingOfADevice) {
  std::vector<TestDump> dumps = ranks_of_world(2);
  for (TestDump& dump : dumps) dump.has_status = false;
  dumps[0].calls = {pending(0, "nccl:all_reduce", -1)};
  dumps[1].calls = {pending(0, "nccl:all_reduce", -1)};
  for (const auto& suspect : inspected(dumps).suspects)
    EXPECT_TRUE(suspect.reason.starts_with("Every member has come")) << suspect.reason;
}

TEST(Inspection, AForeignGroupIsAFinding) {
  const HungJob job = test::training(2, 2, 2, 1);
  std::vector<TestDump> dumps = test::dumps_of(job, test::hang_of(job));
  for (TestDump& dump : dumps) {
    for (test::DumpedTestGroup& group : dump.groups) {
      if (group.description == "TENSOR_MODEL_PARALLEL_GROUP" && group.ranks == Ranks{0, 1})
        group.ranks = {0, 3};
    }
  }
  EXPECT_TRUE(has_finding(inspected(dumps), "layout"));
}

TEST(Inspection, HoldsTheGroupsAgainstAGivenLayout) {
  const HungJob job = test::training(2, 2, 2, 1);
  const auto given = [](int world) -> std::optional<sim::Layout> {
    sim::ParallelSizes sizes;
    sizes.world_size = world;
    sizes.tensor_model_parallel_size = 4;
    return sim::make_layout(sizes, sim::RuleBook::megatron);
  };
  const Inspection inspection =
      verify::inspect(test::recordings_of(test::dumps_of(job, test::hang_of(job))), given, false);
  EXPECT_FALSE(inspection.layout->is_inferred);
  EXPECT_TRUE(has_finding(inspection, "layout"));
}

TEST(Inspection, JsonHasTheMembersThatOtherProgramsRead) {
  HungJob job = test::training(2, 1, 2, 1);
  job.stops_at[3] = 1;
  const verify::Json json = verify::inspection_json(inspected(job));
  EXPECT_EQ(json.names(), (std::vector<std::string>{"look_first", "verdict", "next", "confidence", "suspects",
                                                    "layout", "groups", "waits", "findings", "cannot_tell"}));
  const verify::Json& suspect = (*json.find("suspects"))[0];
  EXPECT_EQ(suspect.names(), (std::vector<std::string>{"rank", "reason", "kind", "last_line"}));
  EXPECT_EQ(suspect.find("rank")->integer(), 3);
  EXPECT_EQ(suspect.find("kind")->text(), "host");
}

/// A gradient bucket is pending, the second of two, and a call over a group that has no kind of Megatron's.
TEST(Inspection, JsonHasTheCallsThatHoldRanksWithTheirBuckets) {
  const test::DumpedTestCall norm = {.group = 1, .operation = "nccl:all_reduce", .elements = 1};
  const test::DumpedTestCall bucket = {.operation = "nccl:_reduce_scatter_base", .elements = 4096};
  TestDump dump;
  dump.groups = {{"1", "DATA_PARALLEL_GROUP_WITH_CP", {0, 1}}, {"2", "MODEL_PARALLEL_GROUP", {0, 2}}};
  std::vector<std::int64_t> sequences(dump.groups.size());
  for (test::DumpedTestCall call : {norm, bucket, bucket, norm, bucket, bucket}) {
    call.sequence = ++sequences[call.group];
    dump.calls.push_back(call);
  }
  dump.calls.back().state = "scheduled";
  const verify::Json json = verify::inspection_json(inspected({dump}));
  ASSERT_EQ(json.find("waits")->size(), 1U);
  const verify::Json& wait = (*json.find("waits"))[0];
  const char* const expected =
      R"x({"ranks":[0],"for":[],"absent":[1],"group":0,"operation":"nccl:_reduce_scatter_base",)x"
      R"x("sequence":4,"is_message":false,)x"
      R"x("looks_like":"the reduce-scatter of gradient bucket 2 of 2 (distributed optimizer)",)x"
      R"x("bucket":2,"buckets":2,"line":null})x"
      "\n";
  EXPECT_EQ(verify::one_line(wait), expected);

  std::vector<TestDump> dumps = ranks_of_world(2);
  dumps[0].calls = {pending_message("nccl:send 0->1")};
  const verify::Json other = verify::inspection_json(inspected(dumps));
  EXPECT_EQ(verify::one_line((*other.find("waits"))[0]),
            R"({"ranks":[0],"for":[1],"absent":[],"group":0,"operation":"nccl:send 0->1","sequence":1,)"
            R"("is_message":true,"looks_like":null,"bucket":null,"buckets":null,"line":null})"
            "\n");
}

TEST(Inspection, RanksAreListedInFewWords) {
  EXPECT_EQ(verify::ranks_words({3}), "rank 3");
  EXPECT_EQ(verify::ranks_words({9, 14}), "ranks 9 and 14");
  EXPECT_EQ(verify::ranks_words({0, 1, 2, 3, 12}), "ranks 0 to 3 and 12");
  Ranks even;
  for (int rank = 0; rank < 64; rank += 2) even.push_back(rank);
  EXPECT_EQ(verify::ranks_words(even), "ranks 0, 2, 4, 6, 8, 10, 12, 14, ... (32 in all)");
}

}  // namespace
