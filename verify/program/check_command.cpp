#include <algorithm>
#include <filesystem>
#include <fmt/color.h>
#include <fmt/format.h>
#include <fstream>
#include <thread>

#include "sim/base/error.h"
#include "sim/base/printable_text.h"
#include "verify/cases/case_list.h"
#include "verify/options/backend_choice.h"
#include "verify/options/command_requests.h"
#include "verify/options/option_readers.h"
#include "verify/output/json.h"
#include "verify/output/phrases.h"
#include "verify/output/progress.h"
#include "verify/output/report_json.h"
#include "verify/output/text_table.h"
#include "verify/program/backend_check.h"
#include "verify/program/commands.h"
#include "verify/program/interrupt.h"
#include "verify/properties/campaign.h"
#include "verify/properties/case_request.h"

namespace verify {

namespace {

/// Writes the failing setting as a scenario into the working directory. Returns its path, or "" where it
/// cannot be written.
std::string write_scenario(const CampaignRow& row, const std::string& called) {
  const std::string path = fmt::format("failing-{}-{}.ini", row.the_case->name(), row.property->name);
  std::ofstream file(path, std::ios::trunc);
  file << "# Source: " << called << " check: " << sim::printable_text(row.failure->detail) << "\n";
  for (const auto& [name, value] : scenario_options(*row.the_case, *row.property, row.failure->setting))
    file << name << " = " << value << "\n";
  file.close();
  return file ? path : "";
}

std::string slack_text(const CampaignRow& row) {
  return row.slack == 0 ? "" : fmt::format("{:.3g}", row.slack);
}

bool is_broken(const CampaignRow& row) { return row.failure && row.failure->finding; }

std::string verdict_text(const CampaignRow& row, std::int64_t asked_runs) {
  if (row.failure) return is_broken(row) ? "BROKEN" : "FALSIFIED";
  if (row.runs == 0) return "not run";
  const std::string holds = row.runs < asked_runs ? "holds so far" : "holds";
  return row.runs_with_unbounded == 0
             ? holds
             : fmt::format("{}; {} not judged in full", holds, counted(row.runs_with_unbounded, "run"));
}

Json as_json(const CampaignRow& row, const std::string& path) {
  Json json = {{"case", row.the_case->name()},
               {"property", row.property->name},
               {"runs", row.runs},
               {"worst_slack", row.slack},
               {"runs_with_unbounded", row.runs_with_unbounded},
               {"holds", !row.failure.has_value()}};
  if (row.runs == 0) json["holds"] = nullptr;
  if (!row.failure) return json;
  json["detail"] = row.failure->detail;
  json["why"] = row.failure->explanation;
  if (is_broken(row)) json["finding"] = finding_json(*row.failure->finding);
  json["setting"] = text_of(row.failure->setting);
  json["scenario"] = path;
  return json;
}

std::string as_text(const CampaignRow& row, const std::string& path, const std::string& called) {
  const std::string arguments =
      path.empty() ? command_line_of(options_of(*row.the_case, *row.property, row.failure->setting))
                   : " " + path;
  const std::string& why = row.failure->explanation;
  const std::string reproduce = fmt::format("{} replay{}", called, arguments);
  const std::string explained = why.empty() ? "" : fmt::format("  why        {}\n", why);
  const std::string with = fmt::format("  with       {}\n", text_of(row.failure->setting));
  const std::string what = fmt::format("\n{} {}: ", row.the_case->name(), row.property->name);
  if (is_broken(row)) return what + sim::text_of(*row.failure->finding, reproduce) + explained + with;
  return fmt::format("{}{}\n{}{}  reproduce  {}\n", what, row.failure->detail, explained, with, reproduce);
}

/// The verdict of all rows. As in a replay, what is falsified is worse than what is broken. A failure that
/// was found before an interrupt is a verdict; what has not failed until then is none.
struct CampaignVerdict {
  std::int64_t falsified = 0;
  std::int64_t broken = 0;
  bool is_whole = true;  // the campaign came to its end

  bool has_failed() const { return falsified + broken > 0; }
  const char* name() const {
    if (has_failed()) return falsified > 0 ? "falsified" : "broken";
    return is_whole ? "verified" : "interrupted";
  }
  ExitCode exit_code() const {
    if (has_failed()) return falsified > 0 ? kFalsified : kBroken;
    return is_whole ? kVerified : kInterrupted;
  }
  std::string counts() const {
    return fmt::format("{} falsified{}", falsified, broken > 0 ? fmt::format(", {} broken", broken) : "");
  }
};

CampaignVerdict verdict_of(const std::vector<CampaignRow>& rows, bool is_whole) {
  CampaignVerdict verdict{.is_whole = is_whole};
  for (const CampaignRow& row : rows) {
    if (row.failure) ++(is_broken(row) ? verdict.broken : verdict.falsified);
  }
  return verdict;
}

/// Returns the number of threads that the campaign's runs are divided over: as many as the options say, or as
/// there are cores. The result is the same for any number.
std::size_t threads_for(const CaseOptions& options, std::size_t runs) {
  constexpr std::size_t kMost = 256;
  const std::size_t cores = std::max(1U, std::thread::hardware_concurrency());
  const auto asked = options.threads ? static_cast<std::size_t>(*options.threads) : cores;
  return std::min({asked, runs, kMost});
}

/// Runs the campaign up to its end, or up to an interrupt. Returns whether it came to its end.
bool run_with_progress(const CampaignRequest& request, std::vector<CampaignRow>& rows,
                       const CaseOptions& options, const Output& output) {
  const std::size_t runs = rows.size() * static_cast<std::size_t>(request.runs);
  const InterruptKept interrupt;
  Progress progress(output.err, output.progress, runs, "runs");
  std::vector<Bench> benches(threads_for(options, runs));
  bool is_whole = true;
  run_campaign(request, benches, rows, [&](std::int64_t done, const CampaignRow& row) {
    progress.step(static_cast<std::size_t>(done), row.the_case->name() + " " + row.property->name);
    is_whole = is_whole && !interrupt.is_asked();
    return is_whole;
  });
  return is_whole;
}

}  // namespace

int check_cases(const Call& call, const CaseList& cases, const std::string& called) {
  const CommandLine& line = call.line;
  const Output& output = call.output;
  if (!line.scenarios.empty()) {
    sim::refuse({.code = "one_scenario",
                 .option = line.scenarios[0],
                 .numbers = "a scenario is given",
                 .rule = "'check' takes no scenario, because it draws its own settings",
                 .hint = called + " replay " + line.scenarios[0]});
  }
  const BackendKind* backend = backend_kind(line);
  require_read_on(line, Reader::check, backend);
  if (backend != nullptr) return check_on_backend(call, cases, called);
  const CaseOptions options = case_options(line);
  const CampaignRequest request = requested_campaign(options, cases);
  std::vector<CampaignRow> rows = campaign_rows(request);
  if (rows.empty()) refuse_nothing_to_check();
  const bool is_whole = run_with_progress(request, rows, options, output);
  const CampaignVerdict verdict = verdict_of(rows, is_whole);
  Json json_rows = Json::array();
  TextTable table(
      {{"case"}, {"property"}, {"runs", Align::right}, {"worst slack", Align::right}, {"verdict"}});
  std::string failures;
  std::int64_t runs = 0;
  for (const CampaignRow& row : rows) {
    const std::string path = row.failure ? write_scenario(row, called) : "";
    runs += row.runs;
    json_rows.push_back(as_json(row, path));
    table.add({row.the_case->name(), row.property->name, fmt::format("{}", row.runs), slack_text(row),
               verdict_text(row, request.runs)});
    if (row.failure) failures += as_text(row, path, called);
  }
  if (asks_for_json(line)) {
    output.out << one_line({{"verdict", verdict.name()},
                            {"seed", request.seed},
                            {"runs", runs},
                            {"interrupted", !is_whole},
                            {"rows", std::move(json_rows)}});
  } else {
    const std::string of_runs =
        is_whole ? counted(runs, "run") : fmt::format("{} of {} runs", runs, std::ssize(rows) * request.runs);
    const char* end = is_whole || !verdict.has_failed() ? "" : ", then interrupted";
    output.out << table.text() << failures
               << fmt::format("\n{}: {} in {}, seed {}; {}{}\n", verdict.name(), of_runs,
                              counted(std::ssize(rows), "row"), request.seed, verdict.counts(), end);
  }
  return verdict.exit_code();
}

int run_check(const Call& call) { return check_cases(call, all_cases(), "./shardproof"); }

}  // namespace verify
