// The exam of inspect: the virtual world knows why a run came to an end, inspect sees only the dumps of the
// run. The table of verify/recordings/README.md has the outcome of each planted program, and this test holds
// it.

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sim/cpu/cpu_device.h"
#include "sim/tensor/counting_device.h"
#include "sim/tensor/ops.h"
#include "sim/world/simulate.h"
#include "tests/support/run.h"
#include "tests/verify/recordings/examined_run.h"
#include "tests/verify/recordings/folder.h"
#include "verify/checks/planted_programs.h"
#include "verify/recordings/dump_writer.h"

namespace {

using Ranks = test::RankSet;

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
  const verify::DumpFolderWriter files(folder.path().string(), verify::DumpFormat::pickle);
  for (const verify::RankDump& dump : test::dumps_of_run(spec.layout, run)) files.write(dump);

  const test::RunResult result = test::run("inspect '" + folder.path().string() + "' --format json");
  const auto inspected = nlohmann::json::parse(result.out);
  EXPECT_EQ(result.exit_code, inspected["suspects"].empty() && inspected["findings"].empty() ? 0 : 1);
  return {test::culprits_of(run), suspects_of(inspected)};
}

/// Returns the beginning of the table's row for a planted program; the reason stands behind it.
std::string row_of(const std::string& program, const Outcome& outcome) {
  return "| `" + program + "` | " + test::text_of(outcome.culprits) + " | " +
         test::text_of(outcome.suspects) + " | " + (outcome.culprits == outcome.suspects ? "yes" : "no") +
         " |";
}

TEST(InspectExam, TheTableHasTheOutcomeOfEveryPlantedProgram) {
  const std::string manual = test::content_of("verify/recordings/README.md");
  for (const verify::PlantedProgram& program : verify::planted_programs()) {
    const std::string row = row_of(program.name, outcome_of(sim::world_of(4), program.run));
    EXPECT_NE(manual.find(row), std::string::npos) << row;
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
      EXPECT_EQ(test::text_of(outcome.suspects), test::text_of({stops}))
          << "rank " << stops << ", call " << at;
    }
  }
}

/// The faults of --plant are in the dumps of a replayed training, too.
TEST(InspectExam, AFaultThatIsPlantedInAReplayIsInItsDumps) {
  const test::Folder folder("shardproof-planted");
  const std::string dumps = "'" + folder.path().string() + "'";
  const test::RunResult replayed = test::run(
      "replay scenarios/training/train_tp2_pp2_dp2.ini --plant "
      "row_parallel_linear.forward:skip@rank=5,call=2 --flight-recorder " +
      dumps);
  EXPECT_EQ(replayed.exit_code, 1) << replayed.out << replayed.err;
  EXPECT_NE(replayed.out.find("members of tp disagree at call 4"), std::string::npos) << replayed.out;
  const auto inspected = nlohmann::json::parse(test::run("inspect " + dumps + " --format json").out);
  EXPECT_EQ(suspects_of(inspected), Ranks{5}) << inspected["verdict"];
}

}  // namespace
