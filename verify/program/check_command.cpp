#include <algorithm>
#include <filesystem>
#include <fmt/color.h>
#include <fmt/format.h>
#include <fstream>

#include "sim/base/error.h"
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
#include "verify/properties/campaign.h"
#include "verify/properties/case_request.h"

namespace verify {

namespace {

/// Writes the failing setting as a scenario into the working directory. Returns its path, or "" where it
/// cannot be written.
std::string write_scenario(const CampaignRow& row) {
  const std::string path = fmt::format("failing-{}-{}.ini", row.the_case->name(), row.property->name);
  std::ofstream file(path, std::ios::trunc);
  file << "# Source: shardproof check: " << row.failure->detail << "\n";
  for (const auto& [name, value] : scenario_options(*row.the_case, *row.property, row.failure->setting))
    file << name << " = " << value << "\n";
  file.close();
  return file ? path : "";
}

std::string slack_text(const CampaignRow& row) {
  return row.slack == 0 ? "" : fmt::format("{:.3g}", row.slack);
}

bool is_broken(const CampaignRow& row) { return row.failure && row.failure->finding; }

std::string verdict_text(const CampaignRow& row) {
  if (row.failure) return is_broken(row) ? "BROKEN" : "FALSIFIED";
  return row.runs_with_unbounded == 0
             ? "holds"
             : fmt::format("holds; {} not judged in full", counted(row.runs_with_unbounded, "run"));
}

Json as_json(const CampaignRow& row, const std::string& path) {
  Json json = {{"case", row.the_case->name()},
               {"property", row.property->name},
               {"runs", row.runs},
               {"worst_slack", row.slack},
               {"runs_with_unbounded", row.runs_with_unbounded},
               {"holds", !row.failure.has_value()}};
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

/// The verdict of all rows. As in a replay, what is falsified is worse than what is broken.
struct CampaignVerdict {
  std::int64_t falsified = 0;
  std::int64_t broken = 0;

  const char* name() const { return falsified > 0 ? "falsified" : broken > 0 ? "broken" : "verified"; }
  ExitCode exit_code() const { return falsified > 0 ? kFalsified : broken > 0 ? kBroken : kVerified; }
  std::string counts() const {
    return fmt::format("{} falsified{}", falsified, broken > 0 ? fmt::format(", {} broken", broken) : "");
  }
};

CampaignVerdict verdict_of(const std::vector<CampaignRow>& rows) {
  CampaignVerdict verdict;
  for (const CampaignRow& row : rows) {
    if (row.failure) ++(is_broken(row) ? verdict.broken : verdict.falsified);
  }
  return verdict;
}

void run_with_progress(const CampaignRequest& request, std::vector<CampaignRow>& rows, const Output& output) {
  const auto runs = static_cast<std::size_t>(request.runs);
  Progress progress(output.err, output.progress, rows.size() * runs, "runs");
  Bench bench;
  run_campaign(request, bench, rows, [&](const CampaignRow& row) {
    const auto done = static_cast<std::size_t>(&row - rows.data()) * runs;
    const std::size_t own = std::min(static_cast<std::size_t>(row.runs), runs);  // shrinking adds more runs
    progress.step(done + own, row.the_case->name() + " " + row.property->name);
  });
}

}  // namespace

int check_cases(const Call& call, const CaseList& cases, const std::string& called) {
  const CommandLine& line = call.line;
  const Output& output = call.output;
  if (!line.scenarios.empty()) {
    sim::refuse({.code = "one_scenario",
                 .option = line.scenarios[0],
                 .numbers = "a scenario given",
                 .rule = "'check' draws its own settings",
                 .hint = called + " replay " + line.scenarios[0]});
  }
  const BackendKind* backend = backend_kind(line);
  require_read_on(line, Reader::check, backend);
  if (backend != nullptr) return check_on_backend(call, cases, called);
  const CampaignRequest request = requested_campaign(case_options(line), cases);
  std::vector<CampaignRow> rows = campaign_rows(request);
  if (rows.empty()) refuse_nothing_to_check();
  run_with_progress(request, rows, output);
  const CampaignVerdict verdict = verdict_of(rows);
  Json json_rows = Json::array();
  TextTable table(
      {{"case"}, {"property"}, {"runs", Align::right}, {"worst slack", Align::right}, {"verdict"}});
  std::string failures;
  std::int64_t runs = 0;
  for (const CampaignRow& row : rows) {
    const std::string path = row.failure ? write_scenario(row) : "";
    runs += row.runs;
    json_rows.push_back(as_json(row, path));
    table.add({row.the_case->name(), row.property->name, fmt::format("{}", row.runs), slack_text(row),
               verdict_text(row)});
    if (row.failure) failures += as_text(row, path, called);
  }
  if (asks_for_json(line)) {
    output.out << one_line({{"verdict", verdict.name()},
                            {"seed", request.seed},
                            {"runs", runs},
                            {"rows", std::move(json_rows)}});
  } else {
    output.out << table.text() << failures
               << fmt::format("\n{}: {} in {}, seed {}; {}\n", verdict.name(), counted(runs, "run"),
                              counted(std::ssize(rows), "row"), request.seed, verdict.counts());
  }
  return verdict.exit_code();
}

int run_check(const Call& call) { return check_cases(call, all_cases(), "./shardproof"); }

}  // namespace verify
