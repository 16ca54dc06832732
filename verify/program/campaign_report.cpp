#include "verify/program/campaign_report.h"

#include <fmt/format.h>
#include <fstream>
#include <utility>

#include "sim/base/printable_text.h"
#include "verify/campaign/case_request.h"
#include "verify/output/json.h"
#include "verify/output/phrases.h"
#include "verify/output/report_json.h"
#include "verify/output/text_table.h"
#include "verify/requests/case_options.h"
#include "verify/requests/command_requests.h"

namespace verify {

namespace {

/// Writes the failing setting as a scenario into the working directory. Returns its path, or "" where it
/// cannot be written.
std::string write_scenario(const CampaignRow& row, const std::vector<Fault>& faults,
                           const std::string& called) {
  const std::string path = fmt::format("failing-{}-{}.ini", row.the_case->name(), row.property->name);
  std::ofstream file(path, std::ios::trunc);
  file << "# Source: " << called << " check: " << sim::printable_text(row.failure->detail) << "\n";
  const NamedValues options = scenario_options(*row.the_case, *row.property, row.failure->setting);
  for (const auto& [name, value] : with_plants(options, faults)) file << name << " = " << value << "\n";
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

std::string as_text(const CampaignRow& row, const std::vector<Fault>& faults, const std::string& path,
                    const std::string& called) {
  const NamedValues options = options_of(*row.the_case, *row.property, row.failure->setting);
  const std::string arguments = path.empty() ? command_line_of(with_plants(options, faults)) : " " + path;
  const std::string& why = row.failure->explanation;
  const std::string reproduce = fmt::format("{} replay{}", called, arguments);
  const std::string explained = why.empty() ? "" : fmt::format("  why        {}\n", why);
  const std::string with = fmt::format("  with       {}\n", text_of(row.failure->setting));
  const std::string what = fmt::format("\n{} {}: ", row.the_case->name(), row.property->name);
  if (is_broken(row)) return what + sim::text_of(*row.failure->finding, reproduce) + explained + with;
  return fmt::format("{}{}\n{}{}  reproduce  {}\n", what, row.failure->detail, explained, with, reproduce);
}

/// What became of all rows.
struct CampaignVerdict {
  std::int64_t falsified = 0, broken = 0;
  std::vector<std::string> unmet_faults = {};  // planted faults that no call, kernel or tensor had
  ExitCode code = kVerified;

  std::string counts() const {
    const std::string of_broken = broken > 0 ? fmt::format(", {} broken", broken) : "";
    const std::string of_unmet =
        unmet_faults.empty() ? "" : fmt::format(", {} not met", counted(std::ssize(unmet_faults), "fault"));
    return fmt::format("{} falsified{}{}", falsified, of_broken, of_unmet);
  }
};

CampaignVerdict verdict_of(const CampaignRequest& request, const std::vector<CampaignRow>& rows,
                           bool is_whole) {
  CampaignVerdict verdict{.code = is_whole ? kVerified : kInterrupted};
  if (is_whole) verdict.unmet_faults = unmet_faults(request.faults);
  for (const CampaignRow& row : rows)
    if (row.failure) ++(is_broken(row) ? verdict.broken : verdict.falsified);
  if (verdict.falsified > 0 || !verdict.unmet_faults.empty() || verdict.broken > 0)
    verdict.code = verdict.broken > 0 && verdict.falsified == 0 ? kBroken : kFalsified;
  return verdict;
}

}  // namespace

ExitCode exit_code_of(const CampaignRequest& request, const std::vector<CampaignRow>& rows, bool is_whole) {
  return verdict_of(request, rows, is_whole).code;
}

void write_campaign(const Call& call, const CampaignRequest& request, const std::vector<CampaignRow>& rows,
                    bool is_whole) {
  const CampaignVerdict verdict = verdict_of(request, rows, is_whole);
  Json json_rows = Json::array();
  TextTable table({"case", "property", ">runs", ">worst slack", "verdict"});
  std::string failures;
  std::int64_t runs = 0;
  for (const CampaignRow& row : rows) {
    const std::string path = row.failure ? write_scenario(row, request.faults, call.called) : "";
    runs += row.runs;
    json_rows.push_back(as_json(row, path));
    table.row(row.the_case->name(), row.property->name, row.runs, slack_text(row),
              verdict_text(row, request.runs));
    if (row.failure) failures += as_text(row, request.faults, path, call.called);
  }
  if (!verdict.unmet_faults.empty()) failures += fmt::format("\nplant: {}\n", text_of_unmet(request.faults));
  if (asks_for_json(call.line)) {
    call.output.out << one_line({{"verdict", verdict_name(verdict.code)},
                                 {"seed", request.seed},
                                 {"runs", runs},
                                 {"interrupted", !is_whole},
                                 {"unmet_faults", verdict.unmet_faults},
                                 {"rows", std::move(json_rows)}});
  } else {
    const std::string of_runs =
        is_whole ? counted(runs, "run") : fmt::format("{} of {} runs", runs, std::ssize(rows) * request.runs);
    const char* end = is_whole || verdict.code == kInterrupted ? "" : ", then interrupted";
    call.output.out << table.text() << failures
                    << fmt::format("\n{}: {} in {}, seed {}; {}{}\n", verdict_name(verdict.code), of_runs,
                                   counted(std::ssize(rows), "row"), request.seed, verdict.counts(), end);
  }
}

}  // namespace verify
