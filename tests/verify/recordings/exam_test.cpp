// The exam of inspect: the virtual world knows why a run came to an end, inspect sees only the dumps of the
// run. The table of verify/recordings/README.md has the outcome of each planted program, and this test holds
// it.

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "sim/cpu/cpu_device.h"
#include "sim/tensor/counting_device.h"
#include "sim/tensor/ops.h"
#include "sim/world/run_timeline.h"
#include "sim/world/simulate.h"
#include "tests/support/run.h"
#include "tests/verify/recordings/folder.h"
#include "verify/checks/planted_programs.h"
#include "verify/recordings/dump_folder_writer.h"
#include "verify/recordings/run_dump_writer.h"

namespace {

using Ranks = std::set<int>;

/// Returns the ranks at fault, as the diagnosis of the virtual world names them: those that ended without
/// their call; where members made different calls, the smaller party; the first two where only they are
/// compared; and all of a circle.
Ranks culprits_of(const sim::RunReport& run) {
  if (run.findings.empty()) return {};
  const sim::Finding& first = run.findings.front();
  Ranks all, ended;
  std::map<std::tuple<sim::Operation, std::int64_t, sim::DType, sim::ReduceOp, int>, Ranks> parties;
  for (const sim::CallFacts& call : first.calls) {
    all.insert(call.rank);
    const bool waits = call.state == "waits in" || call.state == "arrived at";
    if (!waits) ended.insert(call.rank);
    parties[{call.operation, call.count, call.dtype, call.reduce_op, call.root_or_peer}].insert(call.rank);
  }
  if (!ended.empty()) return ended;
  if (first.code == "split_size_mismatch" || first.code == "group_order_mismatch")
    return {first.calls.at(0).rank, first.calls.at(1).rank};
  if (first.code == "deadlock" || parties.size() != 2) return all;
  const Ranks& one = parties.begin()->second;
  const Ranks& other = std::next(parties.begin())->second;
  return one.size() == other.size() ? all : (one.size() < other.size() ? one : other);
}

struct Outcome {
  Ranks culprits;  // as the virtual world knows them
  Ranks suspects;  // of inspect
};

Ranks suspects_of(const nlohmann::json& inspected) {
  Ranks suspects;
  for (const auto& suspect : inspected["suspects"]) suspects.insert(suspect["rank"].get<int>());
  return suspects;
}

/// Runs a program, writes its dumps and inspects them.
Outcome outcome_of(const sim::WorldSpec& spec, const sim::RankProgram& program) {
  const test::Folder folder("shardproof-exam");
  sim::CpuDevice cpu;
  sim::CountingDevice device(cpu);
  const sim::RunReport run = sim::simulate(spec, device, program);
  const sim::RunTimeline timeline = sim::run_timeline(run);
  const verify::DumpFolderWriter files(folder.path().string(), verify::DumpFormat::pickle);
  verify::RunDumpWriter writer(spec.layout, run, timeline);
  for (std::size_t rank = 0; rank < writer.size(); ++rank) files.write(writer.dump_of(rank));

  const test::RunResult result = test::run("inspect '" + folder.path().string() + "' --format json");
  const auto inspected = nlohmann::json::parse(result.out);
  EXPECT_EQ(result.exit_code, inspected["suspects"].empty() && inspected["findings"].empty() ? 0 : 1);
  return {culprits_of(run), suspects_of(inspected)};
}

std::string text_of(const Ranks& ranks) {
  std::string text;
  for (const int rank : ranks) text += (text.empty() ? "" : ", ") + std::to_string(rank);
  return text.empty() ? "none" : text;
}

/// Returns the beginning of the table's row for a planted program; the reason stands behind it.
std::string row_of(const std::string& program, const Outcome& outcome) {
  return "| `" + program + "` | " + text_of(outcome.culprits) + " | " + text_of(outcome.suspects) + " | " +
         (outcome.culprits == outcome.suspects ? "yes" : "no") + " |";
}

TEST(InspectExam, TheTableHasTheOutcomeOfEveryPlantedProgram) {
  const std::string manual = test::content_of("verify/recordings/README.md");
  for (const verify::PlantedProgram& program : verify::planted_programs()) {
    const std::string row = row_of(program.name, outcome_of(sim::world_of(4), program.run));
    EXPECT_NE(manual.find(row), std::string::npos) << row;
  }
}

/// Real dumps of PyTorch's gloo, which tests/torch/record_gloo.py made. There a state is always "scheduled",
/// and no group has a name.
TEST(InspectExam, TheHangsOfRealGlooJobsAreNamed) {
  const std::map<std::string, Ranks> jobs = {
      {"matched", {}}, {"stopped", {2}}, {"crossed", {0, 1}}, {"size_mismatch", {1}}};
  for (const auto& [job, culprits] : jobs) {
    const test::RunResult result = test::run("inspect tests/verify/inspect/gloo/" + job + " --format json");
    EXPECT_EQ(result.exit_code, culprits.empty() ? 0 : 1) << job;
    EXPECT_EQ(text_of(suspects_of(nlohmann::json::parse(result.out))), text_of(culprits)) << job;
  }
}

/// A step of a training in small, in which each rank calls in all its groups; rank `stops` returns before its
/// call number `at`.
void training_that_stops(sim::Rank& rank, int stops, int at) {
  sim::Communicator& world = rank.groups.world();
  sim::Communicator& tp = rank.groups.get("tp");
  sim::Communicator& pp = rank.groups.get("pp");
  sim::Communicator& dp = rank.groups.get("dp");
  int calls = 0;
  const auto ends_here = [&] { return world.rank() == stops && calls++ == at; };
  const sim::Tensor x = sim::filled(rank.device, sim::DType::f32, {8}, 1);
  for (int step = 0; step < 2; ++step) {
    const bool is_first = pp.rank() == 0;
    if (ends_here()) return;
    tp.all_reduce(x, sim::ReduceOp::sum, "exam.tp");
    if (ends_here()) return;
    is_first ? pp.send(x, 1, "exam.forward") : pp.recv(x, 0, "exam.forward");
    if (ends_here()) return;
    is_first ? pp.recv(x, 1, "exam.backward") : pp.send(x, 0, "exam.backward");
    if (ends_here()) return;
    dp.all_reduce(x, sim::ReduceOp::sum, "exam.dp");
  }
}

TEST(InspectExam, ARankThatStopsInATrainingIsNamedWhereverItStops) {
  sim::WorldSpec spec = sim::world_of(8);
  spec.layout =
      sim::make_layout({.world_size = 8, .tensor_model_parallel_size = 2, .pipeline_model_parallel_size = 2},
                       sim::RuleBook::megatron);
  for (const int stops : {0, 3, 6}) {
    for (int at = 0; at < 8; ++at) {
      const Outcome outcome =
          outcome_of(spec, [&](sim::Rank& rank) { training_that_stops(rank, stops, at); });
      EXPECT_TRUE(outcome.culprits.contains(stops)) << "rank " << stops << ", call " << at;
      EXPECT_EQ(text_of(outcome.suspects), text_of({stops})) << "rank " << stops << ", call " << at;
    }
  }
}

}  // namespace
