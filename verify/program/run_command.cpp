#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <mutex>
#include <optional>
#include <thread>

#include "verify/output/json.h"
#include "verify/output/progress.h"
#include "verify/program/commands.h"
#include "verify/program/report_files.h"
#include "verify/program/run_from.h"
#include "verify/report/replay_forms.h"
#include "verify/requests/command_requests.h"
#include "verify/run/guest_report.h"
#include "verify/run/guest_run.h"
#include "verify/run/layouts_report.h"
#include "verify/run/layouts_run.h"
#include "verify/run/shrunk_layout.h"

namespace verify {

namespace {

/// Prints the lines of the ranks, and in between the number of calls that they have made. With --format json
/// standard output has the document alone, and the lines of the ranks go to standard error.
class RanksOutput {
 public:
  explicit RanksOutput(const Call& call)
      : output_(call.output), as_json_(asks_for_json(call.line)), progress_(call.output, "calls") {
    if (output_.progress || output_.lines)
      ticker_ = std::jthread([this](const std::stop_token& stop) { tick(stop); });
  }

  void print(const GuestLine& line) { print("", line); }
  /// Lines of one of several runs go to standard error, with its name in front.
  void print(const std::string& run, const GuestLine& line) {
    const std::lock_guard lock(mutex_);
    progress_.end();
    std::ostream& stream = line.is_error || as_json_ || !run.empty() ? output_.err : output_.out;
    stream << text_of(run, line) << "\n" << std::flush;
  }
  /// Writes a part of the result. More runs follow.
  void write(const std::string& text) {
    const std::lock_guard lock(mutex_);
    progress_.end();
    output_.out << text << std::flush;
  }
  sim::GuestRecord& record() { return record_; }

 private:
  void tick(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (!stop.stop_requested()) {
      progress_.count(static_cast<std::size_t>(record_.calls));
      stopped_.wait_for(lock, stop, std::chrono::milliseconds(200), [] { return false; });
    }
  }

  const Output& output_;
  bool as_json_;
  sim::GuestRecord record_;
  std::mutex mutex_;  // of the streams and of the progress
  std::condition_variable_any stopped_;
  Progress progress_;
  std::jthread ticker_;  // the last member, which ends first
};

/// Returns what a run and a replay have in common.
ScenarioReport report_of(const GuestRequest& request, GuestRun& run, const CommandLine& line) {
  ScenarioReport report{.name = verify::text_of(request.words),
                        .options = line.settings.as_options(),
                        .ledger = run.report.ledger,
                        .findings = run.report.findings,
                        .trace = std::move(run.trace),
                        .reproduce = request.world.reproduce};
  report.checks.push_back(
      {"calls", run.report.ok(),
       run.report.ok() ? sentence_of_calls(request, run) : run.report.findings.front().sentence});
  if (!request.faults.empty())
    report.checks.push_back({"planted faults", run.unmet_faults.empty(),
                             run.unmet_faults.empty()
                                 ? "every fault was met"
                                 : fmt::format("no call had {}", fmt::join(run.unmet_faults, ", "))});
  for (const std::string& fault : run.unmet_faults)
    report.findings.push_back(
        {.code = "planted_fault", .sentence = fmt::format("no call had the planted fault '{}'", fault)});
  for (const sim::Finding& warning : run.report.warnings)
    report.warnings.push_back({warning.code, warning.sentence});
  return report;
}

/// Runs the program on several layouts, compares them, and makes the first that is wrong smaller.
int compare_layouts(const Call& call) {
  const LayoutsRequest request = layouts_request_of(call.line, call.called);
  LayoutsRun run;
  std::optional<ShrunkLayout> shrunk;
  {
    RanksOutput output(call);
    GuestStart start;
    run = run_layouts(
        start, request, [&](const std::string& name, const GuestLine& line) { output.print(name, line); },
        output.record());
    if (!asks_for_json(call.line)) output.write(layouts_text(request, run));
    const auto in_silence = [&](const LayoutsRequest& of) {
      return run_layouts(
          start, of, [](const std::string&, const GuestLine&) {}, output.record());
    };
    const auto wrong = std::ranges::find_if(
        run.layouts, [](const LayoutRun& layout) { return !layout.compared.wrong.empty(); });
    if (call.line.settings.flag("shrink") && wrong != run.layouts.end())
      shrunk = shrunk_layout(call.line, call.called, wrong->name, in_silence);
  }
  if (asks_for_json(call.line)) {
    Json document = layouts_json(request, run);
    if (shrunk) document["shrunk"] = shrunk_json(*shrunk);
    write_json(call, document);
  } else if (shrunk) {
    call.output.out << shrunk_text(*shrunk);
  }
  return run.exit_code();
}

}  // namespace

int run_run(const Call& call) {
  if (asks_for_layouts(call.line)) return compare_layouts(call);
  GuestRequest request = guest_request_of(call.line, call.called);
  const ReportFiles files(call.line);
  GuestRun run;
  {
    RanksOutput output(call);
    GuestStart start;
    run = run_guests(
        start, request, [&](const GuestLine& line) { output.print(line); }, output.record());
  }
  const bool as_json = asks_for_json(call.line);
  if (!as_json) call.output.out << guest_run_text(request, run);
  const std::vector<ScenarioReport> reports = {report_of(request, run, call.line)};
  files.write(reports);  // before JSON, because a refusal must be the only document
  write_annotations(call.line, suites_of(reports), call.output.out);
  if (as_json) write_json(call, guest_run_json(request, run));
  return run.is_clean() ? kVerified : kBroken;
}

}  // namespace verify
