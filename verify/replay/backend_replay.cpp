#include "verify/replay/backend_replay.h"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <utility>
#include <vector>

#include "sim/base/content_hash.h"
#include "sim/base/error.h"
#include "verify/backends/backend_options.h"
#include "verify/backends/random_calls.h"
#include "verify/backends/twin_program.h"
#include "verify/backends/wrong_elements.h"
#include "verify/cases/case_list.h"
#include "verify/checks/trained_model.h"
#include "verify/options/requests.h"
#include "verify/options/world_options.h"
#include "verify/output/output.h"
#include "verify/output/phrases.h"
#include "verify/replay/replay_summary.h"

namespace verify {

namespace {

void check_options(const Settings& settings, const std::string& backend) {
  for (const char* option : {"program", "case", "property", "dtype", "dimensions", "trace", "runs",
                             "max-world", "expect-finding"}) {
    if (settings.has(option)) refuse_without_effect(option, "replay on " + backend);
  }
}

TwinProgram collectives(const Settings& settings, const sim::Layout& layout, const Backend& backend) {
  RandomCalls calls{.seed = static_cast<std::uint64_t>(settings.number("seed").value_or(0)),
                    .steps = kOperations * (static_cast<int>(layout.kinds.size()) + 1),
                    .any_order = !backend.same_bits().sums};
  std::erase_if(calls.dtypes, [&](sim::DType dtype) { return !backend.has(dtype); });
  return {.row = fmt::format("{} collectives", backend.name()),
          .world = requested_world(settings, layout),
          .program = [calls](sim::Rank& rank) { random_calls(rank, calls); }};
}

std::vector<sim::DType> training_dtypes(const Backend& backend) {
  if (!backend.same_bits().all()) return {sim::DType::f32};
  return {sim::DType::f32, backend.has(sim::DType::field) ? sim::DType::field : sim::DType::bf16};
}

/// Then it is of another world.
bool is_folded(const TrainedModel& model, const sim::Layout& layout) {
  return model.setting.tp != layout.world_size;
}

std::vector<TwinProgram> programs(const Settings& settings, const sim::Layout& layout,
                                  const std::optional<TrainedModel>& model, const Backend& backend) {
  std::vector<TwinProgram> all = {collectives(settings, layout, backend)};
  if (!model || (backend.ranks_are_processes() && is_folded(*model, layout))) return all;
  const Case& the_case = *find_case("gpt_training");
  for (const sim::DType dtype : training_dtypes(backend)) {
    CaseSetting setting = model->setting;
    setting.dtype = dtype;
    all.push_back(twin_of(
        fmt::format("{} training {}", backend.name(), sim::name_of(dtype)), the_case, setting,
        requested_world(settings, sim::make_layout(the_case.sizes(setting), sim::RuleBook::megatron))));
  }
  return all;
}

std::vector<std::int64_t> message_bytes(const Settings& settings) {
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  std::vector<std::int64_t> sizes = {4096, 1 << 20};
  if (settings.has("message-bytes")) sizes = settings.numbers("message-bytes");
  for (const std::int64_t size : sizes) {
    if (size >= 0 && size <= kMost) continue;
    sim::refuse(
        {.code = "message_bytes",
         .option = "--message-bytes",
         .numbers = fmt::format("{}", size),
         .rule = fmt::format("messages that are timed have from 1 to {} bytes; 0 stands for none", kMost),
         .hint = "--message-bytes 4096,1048576"});
  }
  std::erase(sizes, 0);
  return sizes;
}

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

BandwidthRows measured(const Settings& settings, const BandwidthPlan& plan, const sim::Layout& layout,
                       Backend& backend) {
  BandwidthRows rows;
  if (!backend.ranks_are_processes() || bandwidth_rows(layout, plan).empty()) return rows;
  run_or_end_all(backend, [&] {
    sim::CpuDevice cpu;
    backend.run(requested_world(settings, layout), cpu,
                [&](sim::Rank& rank) { rows = bandwidth_round(rank, plan, seconds_now); });
  });
  return rows;
}

CheckResult bandwidth_check(const Backend& backend, BandwidthRows& rows,
                            const std::vector<std::string>& notes) {
  CheckResult check{fmt::format("{} bandwidth", backend.name()), true, ""};
  for (std::size_t rank = 1; rank < notes.size(); ++rank) {
    if (!add_wrong_elements(rows, notes[rank])) {
      return {check.check, false, fmt::format("rank {} said nothing of its wrong elements", rank)};
    }
  }
  const std::int64_t wrong = wrong_elements(rows);
  check.holds = wrong == 0;
  check.detail = fmt::format("{}: {} of collectives, {} wrong", counted(backend.processes(), "process"),
                             counted(std::ssize(rows), "row"), counted(wrong, "element"));
  return check;
}

/// Of all that a result depends on, beside the program and the backend.
std::uint64_t configuration_of(const Settings& settings) {
  sim::ContentHash hash;
  hash.add(std::string_view(settings.as_command_line()));
  if (train_iters(settings) > 0) hash.add(std::string_view(training_text(settings)));
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

void run_on(Backend& backend, const Settings& settings, const sim::Layout& layout,
            const std::optional<TrainedModel>& model, const BandwidthPlan& plan, BackendReplay& result) {
  const auto tell_nobody = [](std::size_t, const std::string&) {};
  std::vector<TwinRow> rows = run_twins(backend, programs(settings, layout, model, backend), tell_nobody);
  BandwidthRows bandwidth = measured(settings, plan, layout, backend);
  const TwinVerdict verdict =
      concluded(backend, std::move(rows), wrong_elements(bandwidth) == 0, wrong_elements_text(bandwidth));
  result.exit_code = verdict.exit_code;
  ScenarioReport& report = result.report;
  for (const TwinRow& row : verdict.rows) report.checks.push_back(check_of(row, backend));
  if (!bandwidth.empty()) report.checks.push_back(bandwidth_check(backend, bandwidth, verdict.notes));
  report.bandwidth = std::move(bandwidth);
  if (model && backend.ranks_are_processes() && is_folded(*model, layout)) {
    report.warnings.push_back(
        {"training_folded",
         fmt::format("trained on virtual ranks alone: at {}, which are not the {} processes", model->world,
                     backend.processes())});
  }
}

}  // namespace

BackendReplay replay_on_backend(Scenario scenario, const OpenBackend& open_gpu, std::ostream& err) {
  Settings& settings = scenario.settings;
  if (!settings.has("train-iters")) settings.append("train-iters", {std::to_string(kBackendTrainIters)});
  const BandwidthPlan plan{.sizes = message_bytes(settings), .kinds = {"tp", "cp", "dp", "ep", "pp"}};
  const BackendRequest request = backend_request(settings, configuration_of(settings));
  check_options(settings, request.name);
  if (request.name != "cuda" && settings.choice("expect") == "verified")
    sim::check_processes(requested_layout(settings), request.launch);
  BackendReplay result;
  result.speaks = request.launch.rank == 0;
  result.processes = request.launch.world_size;
  {
    sim::CpuDevice device;
    result.report = replay(scenario, device);
  }
  result.exit_code = exit_code(result.report.verdict());
  if (result.exit_code != kVerified || !result.report.layout) return result;
  const sim::Layout& layout = *result.report.layout;
  std::optional<TrainedModel> model;
  if (train_iters(settings) > 0) model = trained_model(settings, layout);
  result.backend = open_backend(request, open_gpu, err);
  run_or_end_all(*result.backend, [&] { run_on(*result.backend, settings, layout, model, plan, result); });
  return result;
}

}  // namespace verify
