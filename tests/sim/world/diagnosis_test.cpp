// Every planted defect is found, by name, whatever the schedule, the threads and the contexts; and the report shows what a
// reader needs.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

#include "sim/tensor/cpu_device.h"
#include "sim/world/simulate.h"
#include "verify/rank_programs.h"

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
  EXPECT_EQ(call.file, "verify/rank_programs.cpp");
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

// A ring of ranks that wait for each other, and others that wait for the ring: the ring alone is the cycle.
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
