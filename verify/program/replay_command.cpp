#include <algorithm>
#include <chrono>
#include <cstddef>
#include <exception>
#include <fmt/format.h>
#include <future>
#include <map>
#include <mutex>
#include <new>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "sim/base/printable_text.h"
#include "sim/cpu/cpu_device.h"
#include "verify/backends/backend.h"
#include "verify/output/json.h"
#include "verify/output/phrases.h"
#include "verify/output/progress.h"
#include "verify/output/refusal_table.h"
#include "verify/output/report_json.h"
#include "verify/program/commands.h"
#include "verify/program/program.h"
#include "verify/program/report_files.h"
#include "verify/program/run_from.h"
#include "verify/replay/backend_replay.h"
#include "verify/replay/replay.h"
#include "verify/replay/scenario_report.h"
#include "verify/report/replay_forms.h"
#include "verify/requests/backend_choice.h"
#include "verify/requests/command_requests.h"
#include "verify/requests/scenario.h"
#include "verify/requests/scenario_request.h"

namespace verify {

namespace {

/// Adds the lines that reproduce the report and rows of it. A check does not know how the program was called.
void add_lines_to_reproduce(ScenarioReport& report, const CommandLine& line, const std::string& called) {
  report.reproduce =
      fmt::format("{} replay{}{}", called, report.path.empty() ? "" : " " + quoted_for_shell(report.path),
                  arguments_of(line));
  for (CheckResult& check : report.checks)
    if (!check.reproduce.empty()) check.detail += fmt::format(" {} replay{}", called, check.reproduce);
}

/// Measures how long the rows of a replay take, by the clock of this machine. The seconds are only shown, for
/// example in a JUnit file; no result may depend on them.
class Stopwatch {
 public:
  /// Ends the row before this one. A row that begins again is continued.
  void begin(const std::string& row) {
    stop();
    row_ = row;
    since_ = std::chrono::steady_clock::now();
  }
  /// Ends the last row. Returns the seconds of each.
  const std::map<std::string, double>& stop() {
    if (row_)
      seconds_[*row_] += std::chrono::duration<double>(std::chrono::steady_clock::now() - since_).count();
    row_.reset();
    return seconds_;
  }

 private:
  std::optional<std::string> row_;
  std::chrono::steady_clock::time_point since_;
  std::map<std::string, double> seconds_;
};

/// Replays a scenario, and measures how long each row takes.
ScenarioReport measured_replay(const Scenario& scenario, sim::Device& device, const BeforeStep& before_step,
                               ProvedSettings& proved) {
  Stopwatch watch;
  const auto begin = [&](const ReplayStep& step) {
    watch.begin(step.row);
    before_step(step);
  };
  ScenarioReport report = replay(scenario, device, begin, proved).report;
  report.seconds = watch.stop();
  return report;
}

/// Replays one scenario file. A file that cannot be read, or a replay that runs out of memory, is reported as
/// refused, so that the other files are still replayed.
ScenarioReport replay_file(const std::string& path, const CommandLine& line, sim::Device& device,
                           const BeforeStep& before_step, ProvedSettings& proved) {
  ScenarioReport report;
  report.path = path;
  report.name = sim::printable_text(path);
  try {
    const Scenario scenario = read_scenario(path, line);
    if (backend_kind(scenario.settings) != nullptr)
      refuse_by("backend_scenarios/file", "--backend, --device", path);
    return measured_replay(scenario, device, before_step, proved);
  } catch (const sim::Error& error) {
    report.refusal = error.refusal();
  } catch (const std::bad_alloc&) {
    report.refusal =
        sim::Refusal{.code = "out_of_memory",
                     .option = path,
                     .numbers = "it needs more memory than this process can get",
                     .rule = "the tensors of all ranks fit into memory",
                     .hint = "replay only this one, with fewer ranks, or with shorter sequences"};
  }
  return report;
}

/// Replays several scenario files on several threads. What they have in common is proved once. The reports
/// are in the order of `paths`.
std::vector<ScenarioReport> replay_files(const std::vector<std::string>& paths, const CommandLine& line,
                                         const Output& output) {
  Progress progress(output, "scenarios");
  std::vector<ScenarioReport> reports(paths.size());
  ProvedSettings proved;
  std::mutex mutex;
  std::size_t begun = 0, done = 0;
  const auto work = [&] {
    sim::CpuDevice device;
    std::unique_lock lock(mutex);
    while (begun < paths.size()) {
      const std::size_t i = begun++;
      lock.unlock();
      const auto show = [&](const ReplayStep& step) {
        const std::lock_guard guard(mutex);
        progress.step(done, paths.size(), paths[i] + ": " + step.row);
      };
      reports[i] = replay_file(paths[i], line, device, show, proved);
      lock.lock();
      ++done;
    }
  };
  constexpr std::size_t kMost = 8;  // each takes up to 300 MB
  const std::size_t at_once =
      std::min<std::size_t>({std::thread::hardware_concurrency(), paths.size(), kMost});
  std::vector<std::future<void>> others;  // what a worker throws is thrown here
  for (std::size_t i = 1; i < at_once; ++i) others.push_back(std::async(std::launch::async, work));
  work();
  for (std::future<void>& other : others) other.get();
  return reports;
}

/// Replays the named scenarios, or the layout of the command line, or else all of scenarios/.
std::vector<ScenarioReport> replay_all(const Call& call) {
  const CommandLine& line = call.line;
  const Output& output = call.output;
  std::vector<ScenarioReport> reports;
  sim::CpuDevice device;
  ProvedSettings proved;
  Progress progress(output, "steps");
  const auto show = [&](const ReplayStep& step) { progress.step(step.done, step.total, step.row); };
  if (line.scenarios.empty() && gives_a_world(line)) {
    reports.push_back(measured_replay(scenario_of(line), device, show, proved));
  } else if (line.scenarios.size() == 1) {
    reports.push_back(replay_file(line.scenarios.front(), line, device, show, proved));
  } else {
    reports = replay_files(line.scenarios.empty() ? scenario_files() : line.scenarios, line, output);
  }
  for (ScenarioReport& report : reports) add_lines_to_reproduce(report, line, call.called);
  return reports;
}

/// Refuses dumps of several scenarios, because the dumps of a folder are those of one job.
void require_one_run(const CommandLine& line) {
  if (!line.settings.has("flight-recorder")) return;
  if (line.scenarios.size() == 1 || (line.scenarios.empty() && gives_a_world(line))) return;
  refuse_by("flight_recorder_runs", "--flight-recorder",
            line.scenarios.empty() ? "all scenarios are replayed"
                                   : fmt::format("{} scenarios are given", line.scenarios.size()));
}

void write_result(const Call& call, const std::vector<ScenarioReport>& reports, const ReportFiles& files,
                  bool colour) {
  const Output& output = call.output;
  if (asks_for_json(call.line)) {
    const Bound bound = bound_of(reports);
    files.write(reports);  // first, because a refusal must be the only document
    write_json(call, {{"verdict", verdict_name(overall(reports))},
                      {"ran", bound.ran},
                      {"not_proved", bound.not_proved},
                      {"scenarios", json_list(reports, replay_json)}});
    return;
  }
  for (const ScenarioReport& report : reports) output.out << replay_text(report, colour);
  output.out << replay_summary_text(reports, colour);
  write_annotations(call.line, suites_of(reports), output.out);
  files.write(reports);
}

/// Returns the single scenario of a replay on a backend: a file, or the command line alone.
Scenario only_scenario(const CommandLine& line) {
  if (line.scenarios.size() > 1)
    refuse_by("backend_scenarios/several", "--backend, --device", line.scenarios.size());
  if (line.scenarios.empty() && !gives_a_world(line))
    refuse_by("backend_scenarios/none", "--backend, --device");
  Scenario scenario =
      line.scenarios.empty() ? scenario_of(line) : read_scenario(line.scenarios.front(), line);
  scenario.settings.check();
  return scenario;
}

/// Returns the scenario that runs on a backend, if the command line or the only scenario asks for a backend.
std::optional<Scenario> scenario_on_backend(const CommandLine& line) {
  if (backend_kind(line.settings) != nullptr) return only_scenario(line);
  if (line.scenarios.size() != 1) return std::nullopt;
  try {
    Scenario scenario = only_scenario(line);
    if (backend_kind(scenario.settings) == nullptr) return std::nullopt;
    return scenario;
  } catch (const sim::Error&) {
    if (names_a_backend(line)) throw;
    return std::nullopt;  // the replay reports it as refused
  }
}

/// Replays a scenario on a backend, and measures how long each row takes. Its line of progress is gone when
/// this returns.
BackendReplay measured_replay_on_backend(const Call& call, const Scenario& scenario, const KeepRun& keep) {
  Stopwatch watch;
  Output output = call.output;
  output.lines = false;  // of all processes
  Progress progress(output, "steps");
  BackendReplay replayed = replay_on_backend(
      scenario, call.backends, call.output.err,
      [&](const ReplayStep& step) {
        watch.begin(step.row);
        progress.step(step.done, step.total, step.row);
      },
      keep);
  replayed.report.seconds = watch.stop();
  return replayed;
}

/// Replays a scenario on a backend. Only rank 0 writes the result, and it does so before any process
/// ends, because the first process that ends may end all. Colours are off, because mpirun gives rank 0 a
/// terminal even where the output of mpirun goes to a file.
int run_on_backend(const Call& call, const Scenario& scenario) {
  const CommandLine& line = call.line;
  const Output& output = call.output;
  require_one_run(line);
  const ReportFiles files(line);
  require_read_on(line, Reader::replay, backend_kind(scenario.settings));
  BackendReplay replayed = measured_replay_on_backend(call, scenario, files.dump_writer());
  add_lines_to_reproduce(replayed.report, line, call.called);
  replayed.report.reproduce = launched(replayed.processes) + replayed.report.reproduce;
  std::exception_ptr unwritten;
  try {
    if (replayed.speaks) {
      write_result(call, {std::move(replayed.report)}, files, false);
      output.out.flush();
    }
  } catch (const sim::Error&) {
    unwritten = std::current_exception();  // thrown later: all processes end together
  }
  if (replayed.backend != nullptr) {
    replayed.backend->close();
  } else if (!replayed.speaks) {
    let_rank_0_speak();
  }
  if (unwritten) std::rethrow_exception(unwritten);
  return replayed.exit_code;
}

}  // namespace

int run_replay(const Call& call) {
  const CommandLine& line = call.line;
  if (const std::optional<Scenario> scenario = scenario_on_backend(line))
    return run_on_backend(call, *scenario);
  require_read_on(line, Reader::replay, nullptr);
  require_one_run(line);
  const ReportFiles files(line);
  const std::vector<ScenarioReport> reports = replay_all(call);
  if (reports.empty()) refuse_by("scenario_missing/folder", scenario_folder());
  write_result(call, reports, files, call.output.colour);
  return overall(reports);
}

}  // namespace verify
