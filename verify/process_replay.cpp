#include "verify/process_replay.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <fmt/format.h>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>
#include <vector>

#include "sim/base/content_hash.h"
#include "sim/base/error.h"
#include "sim/tensor/cpu_device.h"
#include "sim/world/simulate.h"
#include "verify/commands.h"
#include "verify/counted.h"
#include "verify/random_calls.h"
#include "verify/rank_comparison.h"
#include "verify/requests.h"
#include "verify/scenario.h"
#include "verify/trained_model.h"
#include "verify/world_options.h"

namespace verify {

namespace {

/// A program, and the world it runs in, on either backend.
struct Piece {
  std::string name;
  sim::WorldSpec world;
  std::function<void(sim::CpuDevice&)> prepare;
  sim::RankProgram program;
};

struct Row {
  std::string name;
  RankComparison comparison;
};

void check_options(const Settings& settings) {
  for (const char* option : {"program", "case", "property", "dtype", "dimensions", "trace", "runs",
                             "max-world", "expect", "expect-refusal", "expect-finding"}) {
    if (settings.has(option)) refuse_without_effect(option, "replay' with '--backend mpi");
  }
}

Piece collectives(const Settings& settings, const sim::Layout& layout) {
  const auto seed = static_cast<std::uint64_t>(settings.number("seed").value_or(0));
  const int steps = kOperations * (static_cast<int>(layout.kinds.size()) + 1);
  return {"mpi collectives", requested_world(settings, layout), [](sim::CpuDevice&) {},
          [seed, steps](sim::Rank& rank) { random_calls(rank, seed, steps); }};
}

Piece training(const Settings& settings, const TrainedModel& model, sim::DType dtype) {
  const Case& the_case = *find_case("gpt_training");
  CaseSetting setting = model.setting;
  setting.dtype = dtype;
  sim::WorldSpec world =
      requested_world(settings, sim::make_layout(the_case.sizes(setting), sim::RuleBook::megatron));
  world.seed = setting.seed;
  return {fmt::format("mpi training {}", sim::name_of(dtype)), std::move(world),
          [setting, &the_case](sim::CpuDevice& device) {
            device.set_field_seed(setting.seed, the_case.field_functions());
          },
          [setting, &the_case](sim::Rank& rank) { the_case.run(rank, setting); }};
}

std::vector<Piece> pieces(const Settings& settings, const sim::Layout& layout) {
  std::vector<Piece> all = {collectives(settings, layout)};
  if (train_iters(settings) == 0) return all;
  const TrainedModel model = trained_model(settings, layout);
  if (model.setting.tp != layout.world_size) return all;  // folded: another world
  for (const sim::DType dtype : {sim::DType::f32, sim::DType::field})
    all.push_back(training(settings, model, dtype));
  return all;
}

/// Of all that a result depends on, beside the program.
std::uint64_t configuration_of(const Settings& settings) {
  sim::ContentHash hash;
  hash.add(std::string_view(settings.as_command_line()));
  if (train_iters(settings) > 0) hash.add(std::string_view(training_text(settings)));
  return hash.value();
}

RankComparison compare(const Piece& piece, sim::Cluster& cluster) {
  const auto device = std::make_shared<sim::CpuDevice>();
  piece.prepare(*device);
  const sim::ProcessReport real = cluster.run({.layout = piece.world.layout,
                                               .nodes = piece.world.nodes,
                                               .reduction_order = piece.world.reduction_order,
                                               .eager_bytes = piece.world.eager_bytes,
                                               .seed = piece.world.seed,
                                               .call_limit = piece.world.call_limit},
                                              *device, piece.program);
  const sim::RunReport simulated = sim::simulate(piece.world, *device, piece.program);
  if (!simulated.ok()) return {.difference = "simulated: " + simulated.failure()};
  return compare_ranks(simulated.ranks[static_cast<std::size_t>(cluster.rank())], real.rank, "mpi");
}

/// What stops one process here stops all: none may wait for it.
std::vector<Row> compared(const std::vector<Piece>& pieces, sim::Cluster& cluster) {
  std::vector<Row> rows;
  try {
    for (const Piece& piece : pieces) rows.push_back({piece.name, compare(piece, cluster)});
  } catch (const sim::Error& error) {
    cluster.end_all(sim::text_of(error.refusal()), kRefused);
  } catch (const std::exception& error) {
    cluster.end_all(fmt::format("stopped by the system: {}\n", error.what()), kRefused);
  }
  return rows;
}

std::string as_text(const std::vector<Row>& rows) {
  constexpr std::size_t kMostDifference = 600;  // of three rows: a report takes 4,096 bytes
  nlohmann::ordered_json document = nlohmann::ordered_json::array();
  for (const Row& row : rows) {
    const RankComparison& c = row.comparison;
    document.push_back({c.tensors, c.bytes, c.calls, c.difference.substr(0, kMostDifference)});
  }
  return document.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace);
}

/// Adds what another rank reported; of differences the first rank's stays.
void add_report(std::vector<Row>& rows, const sim::Report& report) {
  const auto document = nlohmann::ordered_json::parse(report.text, nullptr, false);
  if (!document.is_array() || document.size() != rows.size()) return;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    RankComparison& sum = rows[i].comparison;
    sum.tensors += document[i][0].get<std::int64_t>();
    sum.bytes += document[i][1].get<std::int64_t>();
    sum.calls += document[i][2].get<std::int64_t>();
    if (sum.is_equal()) sum.difference = document[i][3].get<std::string>();
  }
}

CheckResult check_of(const Row& row, int processes) {
  const RankComparison& c = row.comparison;
  if (!c.is_equal()) return {row.name, false, c.difference};
  return {row.name, true,
          fmt::format("{} processes: {} of {} bytes and {} equal to those of virtual ranks, bit for bit",
                      processes, counted(c.tensors, "tensor"), c.bytes, counted(c.calls, "call record"))};
}

Scenario requested_scenario(const CommandLine& line) {
  Scenario scenario{"", "command line", "options given", line.settings};
  single_scenario(line);  // one at most, and its values are read
  if (!line.scenarios.empty()) {
    scenario = read_scenario(line.scenarios.front());
    scenario.settings = scenario.settings.overridden_by(line.settings);
  }
  if (!scenario.settings.has("train-iters"))
    scenario.settings.append("train-iters", {std::to_string(kProcessTrainIters)});
  return scenario;
}

ProcessReplay replay(const CommandLine& line, const sim::Launch& launch) {
  const Scenario scenario = requested_scenario(line);
  const Settings& settings = scenario.settings;
  check_options(settings);
  const sim::Layout layout = requested_layout(settings);
  sim::check_processes(layout, launch);
  const std::vector<Piece> all = pieces(settings, layout);
  constexpr std::int64_t kDeadline = 60;
  ProcessReplay result;
  result.cluster = std::make_unique<sim::Cluster>(
      sim::ClusterSpec{.launch = launch,
                       .program_version = SHARDPROOF_VERSION,
                       .configuration = configuration_of(settings),
                       .deadline = std::chrono::seconds(settings.number("deadline").value_or(kDeadline))});
  std::vector<Row> rows = compared(all, *result.cluster);
  const bool is_equal =
      std::all_of(rows.begin(), rows.end(), [](const Row& row) { return row.comparison.is_equal(); });
  const sim::Conclusion conclusion = result.cluster->finish({is_equal, as_text(rows)});
  for (std::size_t rank = 1; rank < conclusion.reports.size(); ++rank)
    add_report(rows, conclusion.reports[rank]);
  result.exit_code = conclusion.exit_code;
  result.report.path = scenario.path;
  result.report.name = scenario.name;
  result.report.source = scenario.source;
  result.report.layout = layout;
  for (const Row& row : rows) result.report.checks.push_back(check_of(row, launch.world_size));
  result.report.reproduce = fmt::format(
      "mpirun -n {} ./shardproof replay{}{} --backend mpi", launch.world_size,
      scenario.path.empty() ? "" : " " + quoted_for_shell(scenario.path), line.settings.as_command_line());
  return result;
}

}  // namespace

ProcessReplay replay_on_processes(const CommandLine& line) {
  sim::require_mpi();
  const sim::Launch launch = sim::detect_launch({}, sim::environment_of_process());
  try {
    return replay(line, launch);
  } catch (const sim::Error&) {
    constexpr std::chrono::seconds kForRank0{2};
    if (launch.rank != 0) std::this_thread::sleep_for(kForRank0);
    throw;
  }
}

}  // namespace verify
