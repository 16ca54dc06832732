// Proves that every planted defect is found under its code, whatever the schedule, the number of threads
// and the kind of context, and that the report contains what a reader needs to understand the failure.

#include <functional>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

#include "sim/cpu/cpu_device.h"
#include "sim/world/simulate.h"
#include "verify/checks/planted_programs.h"

namespace {

using namespace sim;

std::vector<WorldSpec> specs(int ranks) {
  std::vector<WorldSpec> all;
  for (const auto policy : {SchedulePolicy::round_robin, SchedulePolicy::uniform, SchedulePolicy::pct}) {
    for (const auto contexts : {ContextKind::fiber, ContextKind::thread}) {
      for (const int threads : {1, 2}) {
        WorldSpec spec = world_of(ranks);
        spec.schedule = {.policy = policy, .seed = 11};
        spec.contexts = contexts;
        spec.threads = threads;
        all.push_back(spec);
      }
    }
  }
  return all;
}

TEST(Diagnosis, EveryPlantedDefectIsFound) {
  CpuDevice device;
  for (const verify::PlantedProgram& program : verify::planted_programs()) {
    for (const int ranks : {2, 3, 5}) {
      std::string report_of_first;
      for (WorldSpec& spec : specs(ranks)) {
        SCOPED_TRACE(std::string(program.name) + ", " + text_of(spec));
        spec.reproduce = "-";
        const RunReport report = simulate(spec, device, program.run);
        if (*program.finding == '\0') {
          EXPECT_TRUE(report.ok()) << report.failure();
          continue;
        }
        ASSERT_FALSE(report.ok());
        EXPECT_EQ(report.findings.front().code, program.finding) << report.failure();
        EXPECT_FALSE(report.findings.front().calls.empty());
        if (report_of_first.empty()) report_of_first = report.failure();
        EXPECT_EQ(report.failure(), report_of_first);
      }
    }
  }
}

TEST(Diagnosis, NamesRanksGroupSequenceSiteAndLine) {
  CpuDevice device;
  const RunReport report = simulate(world_of(3), device, verify::planted_program("wrong_count")->run);
  ASSERT_EQ(report.findings.size(), 1U);
  const Finding& finding = report.findings.front();
  ASSERT_EQ(finding.calls.size(), 3U);
  const CallFacts& call = finding.calls[1];
  EXPECT_EQ(call.rank, 1);
  EXPECT_EQ(call.group, "world[0] = {0, 1, 2}");
  EXPECT_EQ(call.sequence, 0);
  EXPECT_EQ(call.operation, Operation::all_reduce);
  EXPECT_EQ(call.count, 5);
  EXPECT_EQ(call.site, "wrong_count.sum");
  EXPECT_EQ(call.file, "verify/checks/planted_programs.cpp");
  EXPECT_GT(call.line, 0);
  EXPECT_NE(report.failure().find("reproduce  3 ranks"), std::string::npos) << report.failure();
}

TEST(Diagnosis, EagerSendsEndACycleOfSends) {
  CpuDevice device;
  WorldSpec spec = world_of(2);
  spec.eager_bytes = 16;
  EXPECT_TRUE(simulate(spec, device, verify::planted_program("mutual_send")->run).ok());
  spec.eager_bytes = 15;
  EXPECT_EQ(simulate(spec, device, verify::planted_program("mutual_send")->run).findings.front().code,
            "deadlock");
  spec.eager_bytes = 16;
  EXPECT_EQ(simulate(spec, device, verify::planted_program("lonely_send")->run).findings.front().code,
            "unmatched_send");
  EXPECT_EQ(simulate(spec, device, verify::planted_program("mutual_recv")->run).findings.front().code,
            "deadlock");
}

TEST(Diagnosis, AnEmptySendWaitsWhereNoSendIsEager) {
  CpuDevice device;
  const RunReport report = simulate(world_of(2), device, [](Rank& rank) {
    const Tensor empty = filled(rank.device, DType::f32, {0}, 1);
    rank.groups.world().send(empty, 1 - rank.id, "empty.send");
    rank.groups.world().recv(empty, 1 - rank.id, "empty.recv");
  });
  ASSERT_EQ(report.findings.size(), 1U);
  EXPECT_EQ(report.findings[0].code, "deadlock");
}

TEST(Diagnosis, NamesTheCallThatHasABufferInFlight) {
  CpuDevice device;
  const auto sentence = [&](const char* program) {
    return simulate(world_of(2), device, verify::planted_program(program)->run).findings.front().sentence;
  };
  EXPECT_NE(sentence("reads_in_flight").find("being written by 'reads_in_flight.sum'"), std::string::npos);
  EXPECT_NE(sentence("writes_in_flight").find("being read by 'writes_in_flight.gather'"), std::string::npos);
}

TEST(Diagnosis, ShowsTheLastCallOfWhoLeft) {
  CpuDevice device;
  const RunReport left = simulate(world_of(2), device, verify::planted_program("leaves_early")->run);
  EXPECT_EQ(left.findings[0].calls[0].state, "has ended after 2 calls; the last:");
  EXPECT_EQ(left.findings[0].calls[0].sequence, 1);
  const RunReport threw = simulate(world_of(2), device, [](Rank& rank) {
    for (int i = 0; i < 3; ++i) rank.groups.world().barrier("site");
    if (rank.id == 1) throw std::runtime_error("planted");
  });
  EXPECT_EQ(threw.findings[0].calls[0].sequence, 2);
}

// Some ranks wait for each other in a ring and other ranks wait for the ring. Only the ring is reported
// as the cycle.
RC_GTEST_PROP(Diagnosis, ShortestCycleIsReported, ()) {
  const int ring = *rc::gen::inRange(2, 9);
  const int others = *rc::gen::inRange(0, 8);
  CpuDevice device;
  const RunReport report = simulate(world_of(ring + others), device, [&](Rank& rank) {
    const int from = rank.id < ring ? (rank.id + 1) % ring : rank.id - 1;
    rank.groups.world().recv(filled(rank.device, DType::f32, {1}, 0), from, "ring.recv");
  });
  RC_ASSERT(report.findings.size() == 1U);
  RC_ASSERT(report.findings.front().code == "deadlock");
  RC_ASSERT(static_cast<int>(report.findings.front().calls.size()) == ring);
}

TEST(Diagnosis, OfTwoDeadlocksTheShorterIsFirst) {
  CpuDevice device;
  const RunReport report = simulate(world_of(5), device, [](Rank& rank) {
    const int from[] = {1, 2, 0, 4, 3};
    rank.groups.world().recv(filled(rank.device, DType::f32, {1}, 0), from[rank.id], "rings.recv");
  });
  ASSERT_EQ(report.findings.size(), 2U);
  EXPECT_EQ(report.findings[0].sentence, "ranks 3, 4 wait for each other in a cycle");
  EXPECT_EQ(report.findings[1].calls.size(), 3U);
}

TEST(Diagnosis, OfTwoTanglesOfOrdersTheShorterIsReported) {
  CpuDevice device;
  const RunReport report = simulate(world_of(5), device, [](Rank& rank) {
    const std::vector<std::vector<int>> members = {{0, 1}, {1, 2}, {2, 0}, {3, 4}, {3, 4}};
    const int orders[5][2] = {{0, 2}, {1, 0}, {2, 1}, {3, 4}, {4, 3}};  // groups by rank, in call order
    std::vector<Communicator*> groups;
    for (const auto& each : members) groups.push_back(rank.groups.new_group("pair", each, "tangles.pair"));
    std::vector<Work> works;
    for (const int group : orders[rank.id]) {
      works.push_back(groups[static_cast<std::size_t>(group)]->start_barrier("tangles.barrier"));
    }
    for (Work& work : works) work.wait();
  });
  ASSERT_EQ(report.findings.size(), 1U);
  EXPECT_EQ(report.findings[0].code, "potential_deadlock");
  EXPECT_EQ(report.findings[0].sentence.substr(0, 16), "ranks 3, 4 make ");
  EXPECT_EQ(report.findings[0].calls.size(), 4U);
}

std::vector<Finding> findings_of(const WorldSpec& spec, const RankProgram& program) {
  CpuDevice device;
  return simulate(spec, device, program).findings;
}

Tensor one(Rank& rank) { return filled(rank.device, DType::f32, {1}, 1); }

TEST(Diagnosis, WhateverMembersMayDisagreeOnIsFound) {
  const auto op = [](Rank& rank) { return rank.id == 1 ? ReduceOp::max : ReduceOp::sum; };
  const std::vector<std::pair<const char*, RankProgram>> all = {
      {"reduction_mismatch", [&](Rank& r) { r.groups.world().reduce(one(r), op(r), 0, "site"); }},
      {"reduction_mismatch",
       [&](Rank& r) {
         r.groups.world().reduce_scatter(filled(r.device, DType::f32, {3}, 1), one(r), op(r), "site");
       }},
      {"reduction_mismatch",
       [&](Rank& r) {
         r.groups.world().start_all_reduce(one(r), {ReduceOp::sum, {1, 1 + r.id / 2}}, "site").wait();
       }},
      {"reduction_mismatch",
       [&](Rank& r) {
         r.groups.world().start_all_reduce(one(r), {ReduceOp::sum, {1, 2 + r.id}}, "site").wait();
       }},
      {"root_mismatch", [](Rank& r) { r.groups.world().reduce(one(r), ReduceOp::sum, r.id / 2, "site"); }},
      {"group_order_mismatch",
       [](Rank& r) {
         r.groups.new_group(r.id == 1 ? "one" : "other", {0, 1}, "site");
       }},
  };
  for (const auto& [code, program] : all) {
    const std::vector<Finding> findings = findings_of(world_of(3), program);
    ASSERT_EQ(findings.size(), 1U) << code;
    EXPECT_EQ(findings[0].code, code);
  }
}

// Only ranks 2, 5 and 7 of the world run. In the group {7, 2}, the place in the group, the slot in the
// world and the rank number of every member differ.
TEST(Diagnosis, NamesRanksWhateverTheirPlaceAndSlot) {
  WorldSpec spec = world_of(9);
  spec.ranks = {2, 5, 7};
  const auto in_group = [](const std::function<void(Communicator&, Rank&)>& program) {
    return [program](Rank& rank) {
      Communicator* group = rank.groups.new_group("pair", {7, 2}, "group");
      if (group != nullptr) program(*group, rank);
    };
  };
  const auto only = [&](const std::vector<Finding>& findings) {
    EXPECT_EQ(findings.size(), 1U);
    return findings.empty() ? "" : findings[0].code + ": " + findings[0].sentence;
  };
  EXPECT_EQ(
      only(findings_of(spec, in_group([](Communicator& group, Rank& rank) {
                         if (rank.id == 2) group.barrier("site");
                       }))),
      "missing_ranks: rank 2 waits in 'site' for rank 7, which has ended without making the matching call");
  EXPECT_EQ(
      only(findings_of(spec, in_group([](Communicator& group, Rank& rank) {
                         if (rank.id == 7) group.send(one(rank), 1, "site");
                       }))),
      "unmatched_send: rank 7 waits in 'site' for rank 2, which has ended without making the matching call");
  EXPECT_EQ(
      only(findings_of(spec, in_group([](Communicator& group, Rank& rank) {
                         if (rank.id == 7) group.send(one(rank), 1, "site");
                         if (rank.id == 2) group.recv(filled(rank.device, DType::f32, {2}, 1), 0, "site");
                       }))),
      "message_size_mismatch: a message from rank 7 to rank 2: the send has 1 elements, but its recv has 2");
  const std::vector<Finding> pending = findings_of(spec, in_group([](Communicator& group, Rank& rank) {
                                                     const Work work =
                                                         group.start_broadcast(one(rank), 1, "site");
                                                   }));
  ASSERT_EQ(pending.size(), 2U);
  EXPECT_EQ(pending[0].calls[0].root_or_peer, 2);
  const std::vector<Finding> received = findings_of(spec, in_group([](Communicator& group, Rank& rank) {
                                                      group.recv(one(rank), 1 - group.rank(), "site");
                                                    }));
  ASSERT_EQ(received.size(), 1U);
  EXPECT_EQ(received[0].calls[0].root_or_peer, 7);  // the finding lists rank 2 first
  const std::vector<Finding> roots = findings_of(spec, in_group([](Communicator& group, Rank& rank) {
                                                   group.broadcast(one(rank), group.rank(), "site");
                                                 }));
  ASSERT_EQ(roots.size(), 1U);
  EXPECT_EQ(roots[0].calls[0].root_or_peer, 7);  // the finding lists place 0 (rank 7) first
  EXPECT_EQ(roots[0].calls[1].root_or_peer, 2);
  const std::vector<Finding> refused = findings_of(
      spec, in_group([](Communicator& group, Rank& rank) { group.send(one(rank), group.rank(), "site"); }));
  ASSERT_EQ(refused.size(), 2U);
  EXPECT_NE(refused[0].sentence.find("pair[0] = {7, 2}, rank 2, send"), std::string::npos);
  spec.eager_bytes = 4;
  EXPECT_EQ(only(findings_of(spec, in_group([](Communicator& group, Rank& rank) {
                               if (rank.id == 7) group.send(one(rank), 1, "site");
                             }))),
            "unmatched_send: rank 7 sent a message to rank 2 that nobody received");
}

TEST(Diagnosis, OrdersAreLookedAtWhereNothingElseIsWrong) {
  const std::vector<Finding> findings = findings_of(world_of(2), [](Rank& rank) {
    Communicator* pair = rank.groups.new_group("pair", {0, 1}, "group");
    Communicator* first = rank.id == 0 ? pair : &rank.groups.world();
    Communicator* second = rank.id == 0 ? &rank.groups.world() : pair;
    const Work left = first->start_barrier("site");
    second->start_barrier("site").wait();
  });
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_EQ(findings[1].code, "pending_work");
}

// Rank 1 leaves before its call of the group and rank 2 leaves after its own. One member that had called
// before it left is enough for left_early. Calls in other groups do not count.
TEST(Diagnosis, LeavingIsByCallsOfTheGroupAlone) {
  const std::vector<Finding> left = findings_of(world_of(3), [](Rank& rank) {
    std::vector<Work> works;
    if (rank.id != 1) works.push_back(rank.groups.world().start_barrier("first"));
    if (rank.id == 0) rank.groups.world().barrier("second");
  });
  ASSERT_FALSE(left.empty());
  EXPECT_EQ(left[0].code, "left_early");
  const std::vector<Finding> missing = findings_of(world_of(2), [](Rank& rank) {
    Communicator* pair = rank.groups.new_group("pair", {0, 1}, "group");
    if (rank.id == 0) pair->barrier("first");
  });
  ASSERT_EQ(missing.size(), 1U);
  EXPECT_EQ(missing[0].code, "missing_ranks");
}

TEST(Diagnosis, SeveralWaitsForTheEndedAreSeveralFindings) {
  const std::vector<Finding> findings = findings_of(world_of(3), [](Rank& rank) {
    if (rank.id != 0) rank.groups.world().recv(one(rank), 0, "site");
  });
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_EQ(findings[1].sentence,
            "rank 2 waits in 'site' for rank 0, which has ended without making the matching call");
}

TEST(Diagnosis, LongListsAreCut) {
  const std::vector<Finding> findings = findings_of(world_of(13), [](Rank& rank) {
    if (rank.id != 12) rank.groups.world().barrier("site");
  });
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].calls.size(), 10U);
  EXPECT_EQ(findings[0].more_calls, 3);
  const std::vector<Finding> pending = findings_of(world_of(2), [](Rank& rank) {
    for (int i = 0; i < 12; ++i) const Work left = rank.groups.world().start_barrier("site");
  });
  ASSERT_EQ(pending.size(), 2U);
  EXPECT_EQ(pending[0].sentence, "rank 0 ended without wait() for 12 calls it had started");
  ProcessGroup group{"dp", 0, {0, 1, 2, 3, 4, 5, 6, 7}, 8};
  EXPECT_EQ(text_of(group), "dp[0] = {0, 1, 2, 3, 4, 5, 6, 7}");
  group.members.push_back(9);
  EXPECT_EQ(text_of(group), "dp[0] = {0, 1, 2, 3, 4, 5, 6, 7, ... 9: 9 ranks}");
  EXPECT_EQ(text_of_ranks({0, 1, 2, 3, 4, 5, 6, 7}), "ranks 0, 1, 2, 3, 4, 5, 6, 7");
  EXPECT_EQ(text_of_ranks({0, 1, 2, 3, 4, 5, 6, 7, 8}), "ranks 0, 1, 2, 3, 4, 5, 6, 7, ... (9 ranks)");
}

TEST(Diagnosis, AProgramThatSwallowsTheEndIsReported) {
  CpuDevice device;
#if defined(__SANITIZE_ADDRESS__)
  const __lsan::ScopedDisabler what_lies_on_its_stack_is_never_freed;
#endif
  const RunReport report = simulate(world_of(2), device, [](Rank& rank) {
    if (rank.id == 1) return;
    for (;;) {
      try {
        rank.groups.world().barrier("swallows.barrier");
      } catch (...) {
      }
    }
  });
  ASSERT_EQ(report.findings.size(), 2U);
  EXPECT_EQ(report.findings[0].code, "missing_ranks");
  EXPECT_EQ(report.findings[1].code, "rank_will_not_end");
}

TEST(Diagnosis, AnEndlessProgramIsStopped) {
  CpuDevice device;
  WorldSpec spec = world_of(2);
  spec.call_limit = 100;
  const RunReport report = simulate(spec, device, [](Rank& rank) {
    for (;;) rank.groups.world().barrier("endless.barrier");
  });
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.findings.front().code, "call_limit");
}

}  // namespace
