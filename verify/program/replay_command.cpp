#include <algorithm>
#include <exception>
#include <fmt/color.h>
#include <fmt/format.h>
#include <future>
#include <initializer_list>
#include <mutex>
#include <new>
#include <optional>
#include <thread>
#include <utility>

#include "sim/cpu/cpu_device.h"
#include "verify/backends/backend_options.h"
#include "verify/options/option_vocabulary.h"
#include "verify/options/scenario.h"
#include "verify/output/json.h"
#include "verify/output/output_file.h"
#include "verify/output/progress.h"
#include "verify/output/report_json.h"
#include "verify/output/text_table.h"
#include "verify/program/commands.h"
#include "verify/program/program.h"
#include "verify/replay/backend_replay.h"
#include "verify/replay/replay.h"
#include "verify/replay/replay_summary.h"
#include "verify/report/bandwidth_table.h"
#include "verify/report/ledger_by_kind.h"
#include "verify/report/report_html.h"
#include "verify/report/report_junit.h"
#include "verify/report/trace_json.h"

namespace verify {

namespace {

std::string reproduce_line(const ScenarioReport& report, const Settings& overrides) {
  return fmt::format("./shardproof replay{}{}",
                     report.path.empty() ? "" : " " + quoted_for_shell(report.path),
                     overrides.as_command_line());
}

fmt::text_style style(bool good, bool colour) {
  if (!colour) return {};
  return fmt::fg(good ? fmt::terminal_color::green : fmt::terminal_color::red);
}

/// Where the bytes go: one row a kind, over all sites.
std::string ledger_text(const std::vector<sim::LedgerRow>& ledger) {
  TextTable table({{"ledger"},
                   {"calls", Align::right},
                   {"elements", Align::right},
                   {"bytes inside a node", Align::right},
                   {"across nodes", Align::right},
                   {"most on a rank", Align::right}});
  for (const sim::LedgerRow& sum : ledger_by_kind(ledger)) {
    table.add({sum.kind, fmt::format("{}", sum.calls), fmt::format("{}", sum.elements),
               fmt::format("{}", sum.bytes_inside), fmt::format("{}", sum.bytes_across),
               fmt::format("{}", sum.most_bytes)});
  }
  return table.text("  ");
}

std::string as_text(const ScenarioReport& report, bool colour) {
  std::string text =
      fmt::format("{}  ({})\n", report.name, report.source.empty() ? "no source given" : report.source);
  TextTable table({{""}, {""}, {""}});
  for (const CheckResult& check : report.checks) {
    table.add({check.holds ? "ok" : "FAILED", check.check, check.detail}, style(check.holds, colour));
  }
  for (const sim::Warning& warning : report.warnings) table.add({"warning", warning.name, warning.message});
  if (report.refusal) {
    table.add({"REFUSED", report.refusal->code, report.refusal->option + ": " + report.refusal->numbers},
              style(false, colour));
    table.add({"", "rule", report.refusal->rule});
    table.add({"", "try", report.refusal->hint});
  }
  text += table.text("  ");
  if (!report.ledger.empty()) text += ledger_text(report.ledger);
  if (!report.bandwidth.empty()) text += "\n" + bandwidth_text(report.bandwidth, "  ");
  for (const sim::Finding& finding : report.findings) {
    text += "\n" + sim::text_of(finding, report.reproduce);
  }
  if (report.verdict() != Verdict::verified && report.findings.empty())
    text += "  reproduce: " + report.reproduce + "\n";
  return text + "\n";
}

Json as_json(const ScenarioReport& report) {
  Json checks = Json::array();
  for (const CheckResult& check : report.checks) {
    checks.push_back({{"check", check.check}, {"holds", check.holds}, {"detail", check.detail}});
  }
  Json document = {{"scenario", report.name},     {"path", report.path},
                   {"source", report.source},     {"verdict", verdict_name(report.verdict())},
                   {"checks", std::move(checks)}, {"warnings", warnings_json(report.warnings)}};
  Json ledger = Json::array();
  for (const sim::LedgerRow& row : report.ledger) ledger.push_back(ledger_json(row));
  document["ledger"] = std::move(ledger);
  if (!report.bandwidth.empty()) document["bandwidth"] = bandwidth_json(report.bandwidth);
  if (!report.findings.empty()) {
    Json findings = Json::array();
    for (const sim::Finding& finding : report.findings) findings.push_back(finding_json(finding));
    document["findings"] = std::move(findings);
  }
  if (report.refusal) {
    document["error"] = refusal_json(*report.refusal);
  }
  if (report.verdict() != Verdict::verified) document["reproduce"] = report.reproduce;
  return document;
}

[[noreturn]] void refuse_scenarios(const std::string& numbers) {
  sim::refuse({.code = "backend_scenarios",
               .option = "--backend, --device",
               .numbers = numbers,
               .rule = "on a backend one scenario is replayed at a time: its ranks are the processes",
               .hint = "one scenario, or --world-size; several without a backend"});
}

/// A scenario file that cannot be read, or that takes more memory than there is, is reported as refused, and
/// the others are still replayed.
ScenarioReport replay_file(const std::string& path, const Settings& overrides, sim::Device& device) {
  ScenarioReport report;
  report.path = report.name = path;
  try {
    Scenario scenario = read_scenario(path);
    scenario.settings = scenario.settings.overridden_by(overrides);
    if (!backend_name(scenario.settings).empty()) refuse_scenarios(path + " among several");
    return replay(scenario, device);
  } catch (const sim::Error& error) {
    report.refusal = error.refusal();
  } catch (const std::bad_alloc&) {
    report.refusal = sim::Refusal{.code = "out_of_memory",
                                  .option = path,
                                  .numbers = "takes more memory than this process gets",
                                  .rule = "a scenario is proven in memory",
                                  .hint = "it alone, with fewer ranks or shorter sequences"};
  }
  return report;
}

/// Side by side, each by itself; the reports are in the order of the paths.
std::vector<ScenarioReport> replay_files(const std::vector<std::string>& paths, const Settings& overrides,
                                         const Output& output) {
  Progress progress(output.err, output.progress, paths.size(), "scenarios");
  std::vector<ScenarioReport> reports(paths.size());
  std::mutex mutex;
  std::size_t begun = 0, done = 0;
  const auto work = [&] {
    sim::CpuDevice device;
    std::unique_lock lock(mutex);
    while (begun < paths.size()) {
      const std::size_t i = begun++;
      progress.step(done, paths[i]);
      lock.unlock();
      reports[i] = replay_file(paths[i], overrides, device);
      lock.lock();
      ++done;
    }
  };
  constexpr std::size_t kMost = 8;  // up to 300 MB each
  const std::size_t at_once =
      std::min<std::size_t>({std::thread::hardware_concurrency(), paths.size(), kMost});
  std::vector<std::future<void>> others;
  for (std::size_t i = 1; i < at_once; ++i) others.push_back(std::async(std::launch::async, work));
  work();
  for (std::future<void>& other : others) other.get();
  return reports;
}

/// The scenarios named, the layout of the command line, or all of scenarios/.
std::vector<ScenarioReport> replay_all(const CommandLine& line, const Output& output) {
  const Settings& overrides = line.settings;
  std::vector<ScenarioReport> reports;
  if (line.scenarios.empty() && overrides.has("world-size")) {
    sim::CpuDevice device;
    reports.push_back(replay({"", "command line", "options given", overrides}, device));
  } else {
    reports = replay_files(line.scenarios.empty() ? scenario_files() : line.scenarios, overrides, output);
  }
  for (ScenarioReport& report : reports) report.reproduce = reproduce_line(report, overrides);
  return reports;
}

using TextOf = std::string (*)(const std::vector<ScenarioReport>&);

/// The files that replay is asked for beside its result, judged before any work.
class ReportFiles {
 public:
  explicit ReportFiles(const CommandLine& line) {
    const Settings& settings = line.settings;
    for (const auto& [option, text_of] : std::initializer_list<std::pair<const char*, TextOf>>{
             {"report", report_html}, {"junit", report_junit}, {"trace", trace_json}}) {
      if (settings.has(option)) add(OutputFile(option, settings.text(option, "")), text_of);
    }
    for (const auto& [file, text_of] : files_) {
      for (const std::string& scenario : line.scenarios) file.check_is_no_input(scenario);
      if (settings.has("text")) file.check_is_no_input(settings.text("text", ""));
    }
  }

  void write(const std::vector<ScenarioReport>& reports) const {
    for (const auto& [file, text_of] : files_) file.write(text_of(reports));
  }

 private:
  void add(OutputFile file, TextOf text_of) {
    for (const auto& [other, of_other] : files_) file.check_differs_from(other);
    files_.emplace_back(std::move(file), text_of);
  }

  std::vector<std::pair<OutputFile, TextOf>> files_;
};

std::string all_as_json(const std::vector<ScenarioReport>& reports) {
  Json scenarios = Json::array();
  for (const ScenarioReport& report : reports) scenarios.push_back(as_json(report));
  return one_line({{"verdict", verdict_name(overall(reports))}, {"scenarios", std::move(scenarios)}});
}

void write_result(const std::vector<ScenarioReport>& reports, const ReportFiles& files, bool as_json_text,
                  const Output& output) {
  if (as_json_text) {
    files.write(reports);  // first: a refusal has to be the only document
    output.out << all_as_json(reports);
    return;
  }
  for (const ScenarioReport& report : reports) output.out << as_text(report, output.colour);
  const bool good = overall(reports) == Verdict::verified;
  output.out << fmt::format(style(good, output.colour), "{}", summary_line(reports)) << "\n";
  files.write(reports);
}

/// What one scenario, or the command line alone, asks for.
Scenario only_scenario(const CommandLine& line) {
  if (line.scenarios.size() > 1) refuse_scenarios(fmt::format("{} scenarios", line.scenarios.size()));
  Scenario scenario{"", "command line", "options given", line.settings};
  if (!line.scenarios.empty()) {
    scenario = read_scenario(line.scenarios.front());
    scenario.settings = scenario.settings.overridden_by(line.settings);
  } else if (!line.settings.has("world-size")) {
    refuse_scenarios("none, and no --world-size");
  }
  scenario.settings.check();
  return scenario;
}

/// By its options, or by its one scenario.
bool asks_for_backend(const CommandLine& line) {
  if (!backend_name(line.settings).empty()) return true;
  if (line.scenarios.size() != 1) return false;
  try {
    return !backend_name(only_scenario(line).settings).empty();
  } catch (const sim::Error&) {
    if (line.settings.has_any_of(kBackendSection) || line.settings.has_any_of(kProcessSection)) throw;
    return false;  // it is reported as refused
  }
}

/// Rank 0 alone speaks, and before any process ends: the first that does may end all. mpirun gives it a
/// terminal even where its own output goes to a file: so without colours.
int run_on_backend(const CommandLine& line, const OpenBackend& open_gpu, const Output& output) {
  const ReportFiles files(line);
  const Scenario scenario = only_scenario(line);
  check_backend_options(line.settings, backend_name(scenario.settings), "replay");
  BackendReplay replayed = replay_on_backend(scenario, open_gpu, output.err);
  replayed.report.reproduce = launched(replayed.processes) + reproduce_line(replayed.report, line.settings);
  std::exception_ptr unwritten;
  try {
    if (replayed.speaks) {
      write_result({std::move(replayed.report)}, files, line.settings.choice("format") == "json",
                   {output.out, output.err});
      output.out.flush();
    }
  } catch (const sim::Error&) {
    unwritten = std::current_exception();  // the others have their verdict, and wait to end together
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

int run_replay(const CommandLine& line, const OpenBackend& open_gpu, const Output& output) {
  if (asks_for_backend(line)) return run_on_backend(line, open_gpu, output);
  check_backend_options(line.settings, "", "replay");
  const ReportFiles files(line);
  const std::vector<ScenarioReport> reports = replay_all(line, output);
  if (reports.empty()) {
    sim::refuse({.code = "scenario_missing",
                 .option = scenario_folder(),
                 .numbers = "no .ini file in it",
                 .rule = "replay without a scenario replays all of scenarios/",
                 .hint = "name a scenario file"});
  }
  write_result(reports, files, line.settings.choice("format") == "json", output);
  return exit_code(overall(reports));
}

}  // namespace verify
