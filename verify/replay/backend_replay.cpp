#include "verify/replay/backend_replay.h"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <utility>
#include <vector>

#include "sim/base/content_hash.h"
#include "sim/base/error.h"
#include "sim/launch/process_world.h"
#include "verify/backends/backend.h"
#include "verify/backends/random_calls.h"
#include "verify/backends/twin_program.h"
#include "verify/cases/case_list.h"
#include "verify/checks/trained_experts.h"
#include "verify/checks/trained_model.h"
#include "verify/output/output.h"
#include "verify/output/phrases.h"
#include "verify/replay/scenario_report.h"
#include "verify/requests/backend_choice.h"

namespace verify {

namespace {

TwinProgram collectives(const ScenarioRequest& request, const Backend& backend) {
  RandomCalls calls{.seed = request.cases.seed,
                    .steps = steps_for_every_kind(request.layout),
                    .any_order = !backend.same_bits().sums};
  std::erase_if(calls.dtypes, [&](sim::DType dtype) { return !backend.has(dtype); });
  return {.row = fmt::format("{} collectives", backend.name()),
          .world = request.world,
          .program = [calls](sim::Rank& rank) { random_calls(rank, calls); }};
}

std::vector<sim::DType> training_dtypes(const Backend& backend) {
  if (!backend.same_bits().all()) return {sim::DType::f32};
  return {sim::DType::f32, backend.has(sim::DType::field) ? sim::DType::field : sim::DType::bf16};
}

/// Whether the model is trained in a smaller world than that of the layout.
bool is_folded(const TrainedModel& model, const sim::Layout& layout) {
  return model.setting.group_size != layout.world_size;
}

/// Returns the world of a scenario with another layout.
sim::WorldSpec world_with(const ScenarioRequest& request, sim::Layout layout) {
  sim::WorldSpec world = request.world;
  world.layout = std::move(layout);
  return world;
}

std::vector<TwinProgram> programs(const Replayed& replayed, const Backend& backend) {
  const ScenarioRequest& request = *replayed.request;
  std::vector<TwinProgram> all = {collectives(request, backend)};
  const auto& model = replayed.model;
  if (!model || (backend.ranks_are_processes() && is_folded(*model, request.layout))) return all;
  const Case& the_case = *find_case(case_of_training(model->setting));
  for (const sim::DType dtype : training_dtypes(backend)) {
    CaseSetting setting = model->setting;
    setting.dtype = dtype;
    all.push_back(
        twin_of(fmt::format("{} training {}", backend.name(), sim::name_of(dtype)), the_case, setting,
                world_with(request, sim::make_layout(the_case.sizes(setting), sim::RuleBook::megatron))));
  }
  return all;
}

/// Adds what a rank did. No clock is read: the times of a rank count its calls.
void add_rank(TracedRun& traced, const sim::RankReport& rank) {
  traced.run.ranks.push_back({.rank = rank.rank, .published = {}, .calls = rank.calls});
  std::vector<sim::CallTimes>& times = traced.timeline.calls.emplace_back();
  for (const sim::CallRecord& call : rank.calls) {
    const std::int64_t made = 2 * std::ssize(times);
    times.push_back({.is_made = true,
                     .ends = call.waited,
                     .made = made,
                     .begin = made,
                     .end = call.waited ? made + 1 : 0});
  }
}

/// Has the backend tell of a run: of the first training, or of the collectives where it does not train; and
/// of any program that ends with an error.
void record_runs(Backend& backend, std::vector<TwinProgram>& programs, const sim::Layout& layout,
                 const KeepRun& keep) {
  if (!keep) return;
  TwinProgram& recorded = programs[programs.size() > 1 ? 1 : 0];
  recorded.keep = [&recorded, &keep](const RanksHere& here) {
    TracedRun traced{.what = recorded.row, .layout = recorded.world.layout};
    for (const sim::RankReport& rank : here.ranks) add_rank(traced, rank);
    keep(traced);
  };
  backend.on_broken_run = [&layout, &keep](const sim::RankReport& rank) {
    TracedRun traced{.what = "the program that ended with an error", .layout = layout};
    add_rank(traced, rank);
    keep(traced);
  };
}

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

BandwidthRows measured(const ScenarioRequest& request, const BandwidthPlan& plan, Backend& backend) {
  BandwidthRows rows;
  if (!backend.ranks_are_processes() || bandwidth_rows(request.layout, plan).empty()) return rows;
  run_or_end_all(backend, [&] {
    sim::CpuDevice cpu;
    backend.run(request.world, cpu,
                [&](sim::Rank& rank) { rows = bandwidth_round(rank, plan, seconds_now); });
  });
  return rows;
}

std::string bandwidth_name(const Backend& backend) { return fmt::format("{} bandwidth", backend.name()); }

CheckResult bandwidth_check(const Backend& backend, BandwidthRows& rows,
                            const std::vector<std::string>& notes) {
  CheckResult check{bandwidth_name(backend), true, ""};
  for (std::size_t rank = 1; rank < notes.size(); ++rank) {
    if (!add_wrong_elements(rows, notes[rank])) {
      return {check.check, false,
              fmt::format("rank {} did not report how many of its elements are wrong", rank)};
    }
  }
  const std::int64_t wrong = wrong_elements(rows);
  check.holds = wrong == 0;
  check.detail = fmt::format("{}: {} of collectives, {} wrong", counted(backend.processes(), "process"),
                             counted(std::ssize(rows), "row"), counted(wrong, "element"));
  return check;
}

/// Returns a hash of the inputs that a result depends on, apart from the program and the backend.
std::uint64_t configuration_of(const Replayed& replayed) {
  sim::ContentHash hash;
  hash.add(std::string_view(replayed.request->arguments));
  if (replayed.model) hash.add(replayed.model->text_hash);
  return hash.value();
}

CheckResult check_of(const TwinRow& row, const Backend& backend) {
  if (!row.is_equal()) return {row.name, false, row.difference};
  const std::string where =
      backend.ranks_are_processes() ? counted(backend.processes(), "process") + ": " : "";
  const std::string what = fmt::format("{} of {} bytes", counted(row.tensors, "tensor"), row.bytes);
  if (row.is_bounded) {
    return {
        row.name, true,
        fmt::format("{}{} within the bounds of the serial reference{}, {} equal to those of virtual ranks",
                    where, what, row.runs_with_unbounded == 0 ? "" : " (some elements had no bound)",
                    counted(row.calls, "call record"))};
  }
  return {row.name, true,
          fmt::format("{}{} and {} equal to those of virtual ranks, bit for bit", where, what,
                      counted(row.calls, "call record"))};
}

void run_on(Backend& backend, const Replayed& replayed, const BandwidthPlan& plan,
            const BeforeStep& before_step, const KeepRun& keep, BackendReplay& result) {
  const ScenarioRequest& request = *replayed.request;
  std::vector<TwinProgram> all = programs(replayed, backend);
  record_runs(backend, all, request.layout, keep);
  const std::size_t steps = all.size() + 1;  // and the bandwidth
  std::vector<TwinRow> rows = run_twins(backend, all, [&](std::size_t done, const std::string& row) {
    before_step({row, done, steps});
  });
  before_step({bandwidth_name(backend), all.size(), steps});
  BandwidthRows bandwidth = measured(request, plan, backend);
  backend.on_broken_run = {};
  const TwinVerdict verdict =
      concluded(backend, std::move(rows), wrong_elements(bandwidth) == 0, wrong_elements_text(bandwidth));
  result.exit_code = verdict.exit_code;
  ScenarioReport& report = result.report;
  for (const TwinRow& row : verdict.rows) report.checks.push_back(check_of(row, backend));
  if (!bandwidth.empty()) report.checks.push_back(bandwidth_check(backend, bandwidth, verdict.notes));
  report.bandwidth = std::move(bandwidth);
  if (replayed.model && backend.ranks_are_processes() && is_folded(*replayed.model, request.layout)) {
    report.warnings.push_back(
        {"training_folded",
         fmt::format("the training ran on virtual ranks only: its world is {}, not the {} processes",
                     replayed.model->world, backend.processes())});
  }
}

/// Replays the whole scenario on the virtual ranks of this process.
Replayed replay_here(const Scenario& scenario, const BackendChoice& choice, sim::Device& device,
                     const BeforeStep& before_step) {
  if (expected_refusal(scenario.settings).is_expected) return replay(scenario, device, before_step);
  ScenarioRequest request = scenario_request(scenario);
  require_no_virtual_ranks(scenario, *choice.kind);
  if (choice.kind->ranks_are_processes) sim::require_processes(request.layout, choice.launch);
  request.is_traced = false;  // the run on the backend is what is recorded
  if (!request.training.train_iters) request.training.train_iters = kBackendTrainIters;
  ProvedSettings proved;
  return replay(scenario, std::move(request), device, before_step, proved);
}

}  // namespace

BackendReplay replay_on_backend(const Scenario& scenario, const BackendOpeners& backends, std::ostream& err,
                                const BeforeStep& before_step, const KeepRun& keep) {
  const BackendChoice choice = backend_choice(scenario.settings);
  require_built(choice, backends);
  const BandwidthPlan plan{.sizes = choice.message_bytes, .kinds = {"tp", "cp", "dp", "ep", "pp"}};
  BackendReplay result;
  result.speaks = choice.launch.rank == 0;
  result.processes = choice.launch.world_size;
  sim::CpuDevice device;
  const BeforeStep& told = result.speaks ? before_step : kTellNobody;
  Replayed replayed = replay_here(scenario, choice, device, told);
  result.report = std::move(replayed.report);
  result.exit_code = result.report.verdict();
  if (result.exit_code != kVerified || !result.report.layout) return result;
  result.backend = open_backend({choice, configuration_of(replayed)}, backends, err);
  run_or_end_all(*result.backend, [&] { run_on(*result.backend, replayed, plan, told, keep, result); });
  return result;
}

}  // namespace verify
