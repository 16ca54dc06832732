#include <fmt/format.h>

#include "sim/layout/consumer_traps.h"
#include "sim/world/finding.h"
#include "verify/report/replay_forms.h"

namespace verify {

namespace {

/// Returns the time of a row. There is none if the report has none.
std::optional<double> seconds_of(const ScenarioReport& report, const std::string& row) {
  if (report.seconds.empty()) return std::nullopt;
  const auto known = report.seconds.find(row);
  return known == report.seconds.end() ? 0 : known->second;
}

std::optional<double> seconds_of(const ScenarioReport& report) {
  if (report.seconds.empty()) return std::nullopt;
  double sum = 0;
  for (const auto& [row, seconds] : report.seconds) sum += seconds;
  return sum;
}

Outcome outcome_of(const sim::Finding& finding, const std::string& reproduce) {
  Outcome outcome{.name = "finding " + finding.code,
                  .problem = "error",
                  .type = finding.code,
                  .message = finding.sentence,
                  .text = sim::text_of(finding, reproduce)};
  if (finding.calls.empty()) return outcome;
  outcome.file = finding.calls.front().file;
  outcome.line = finding.calls.front().line;
  return outcome;
}

std::vector<Outcome> outcomes_of(const ScenarioReport& report) {
  std::vector<Outcome> all;
  const std::string reproduce = "\nreproduce: " + report.reproduce;
  const auto fail = [&](const std::string& name, const std::string& type, const std::string& message) {
    all.push_back({name, "failure", type, message, message + reproduce});
  };
  for (const CheckResult& check : report.checks) {
    if (check.holds) {
      all.push_back({.name = check.check});
    } else {
      fail(check.check, "check", check.detail);
    }
  }
  for (const AbsentRow& row : report.absent)
    if (row.is_asked_for)
      all.push_back({row.check, "skipped", "not_run", row.reason, row.reason + reproduce});
  if (report.refusal) all.push_back(verify::outcome_of(*report.refusal, reproduce));
  for (const sim::Refusal& refusal : report.further_refusals)
    all.push_back(verify::outcome_of(refusal, reproduce));
  // A warning that says that results are wrong fails the build.
  for (const sim::Warning& warning : report.warnings)
    if (sim::is_consumer_trap(warning) && !report.has_row("suspect"))
      fail("warning " + warning.name, warning.name, warning.message);
  for (const sim::Finding& finding : report.findings)
    if (report.verdict() == kBroken) all.push_back(outcome_of(finding, report.reproduce));
  for (Outcome& outcome : all) outcome.seconds = seconds_of(report, outcome.name);
  return all;
}

}  // namespace

std::vector<OutcomeSuite> suites_of(const std::vector<ScenarioReport>& reports) {
  std::vector<OutcomeSuite> suites;
  for (const ScenarioReport& report : reports) {
    OutcomeSuite& suite = suites.emplace_back();
    suite.name = report.name;
    suite.file = report.path;
    suite.outcomes = outcomes_of(report);
    suite.seconds = seconds_of(report);
    suite.said = "source: " + (report.source.empty() ? "none given" : report.source);
    for (const sim::Warning& warning : report.warnings) {
      suite.said += "\nwarning: " + warning.name + ": " + warning.message;
      suite.warnings.push_back({.name = warning.name, .message = warning.message});
    }
  }
  return suites;
}

std::string report_junit(const std::vector<ScenarioReport>& reports, std::string_view command) {
  return junit_text(fmt::format("shardproof {}", command), suites_of(reports));
}

}  // namespace verify
