#include <algorithm>
#include <fmt/format.h>
#include <map>

#include "sim/layout/consumer_traps.h"
#include "sim/world/finding.h"
#include "verify/output/markup.h"
#include "verify/report/replay_forms.h"

namespace verify {

namespace {

/// Returns the attribute of a time. It is "" where the report has none.
std::string time_attribute(const ScenarioReport& report, double seconds) {
  return report.seconds.empty() ? "" : fmt::format(" time=\"{:.3f}\"", seconds);
}

double seconds_of(const ScenarioReport& report, const std::string& row) {
  const auto known = report.seconds.find(row);
  return known == report.seconds.end() ? 0 : known->second;
}

double seconds_of(const ScenarioReport& report) {
  double sum = 0;
  for (const auto& [row, seconds] : report.seconds) sum += seconds;
  return sum;
}

struct Testcase {
  std::string name;
  std::string problem = {};  // "failure", "error" or "skipped"; "": it holds
  std::string type = {}, message = {}, text = {};
};

std::string counts(const std::vector<Testcase>& cases) {
  const auto failures = std::ranges::count(cases, "failure", &Testcase::problem);
  const auto errors = std::ranges::count(cases, "error", &Testcase::problem);
  const auto skipped = std::ranges::count(cases, "skipped", &Testcase::problem);
  return fmt::format(" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\"", cases.size(), failures,
                     errors, skipped);
}

std::vector<Testcase> testcases_of(const ScenarioReport& report) {
  std::vector<Testcase> cases;
  const std::string reproduce = "\nreproduce: " + report.reproduce;
  const auto fail = [&](const std::string& name, const std::string& type, const std::string& message) {
    cases.push_back({name, "failure", type, message, message + reproduce});
  };
  const auto refuse = [&](const sim::Refusal& refusal) {
    const std::string message = refusal.option + ": " + refusal.numbers;
    cases.push_back({"refusal " + refusal.code, "error", refusal.code, message,
                     message + "\nrule: " + refusal.rule + "\ntry: " + refusal.hint + reproduce});
  };
  for (const CheckResult& check : report.checks) {
    if (check.holds) {
      cases.push_back({.name = check.check});
    } else {
      fail(check.check, "check", check.detail);
    }
  }
  for (const AbsentRow& row : report.absent)
    if (row.is_asked_for)
      cases.push_back({row.check, "skipped", "not_run", row.reason, row.reason + reproduce});
  if (report.refusal) refuse(*report.refusal);
  for (const sim::Refusal& refusal : report.further_refusals) refuse(refusal);
  // A warning that says that results are wrong fails the build.
  for (const sim::Warning& warning : report.warnings)
    if (sim::is_consumer_trap(warning) && !report.has_row("suspect"))
      fail("warning " + warning.name, warning.name, warning.message);
  for (const sim::Finding& finding : report.findings)
    if (report.verdict() == kBroken)
      cases.push_back({"finding " + finding.code, "error", finding.code, finding.sentence,
                       sim::text_of(finding, report.reproduce)});
  return cases;
}

/// Returns the testcases. A name that occurs again gets a number, because readers identify a testcase by its
/// name.
std::string cases_xml(const ScenarioReport& report, const std::vector<Testcase>& cases) {
  std::string xml;
  std::map<std::string, int> occurrences;
  for (const Testcase& one : cases) {
    const int occurrence = ++occurrences[one.name];
    xml += fmt::format("    <testcase classname=\"{}\" name=\"{}{}\"{}", markup_text(report.name),
                       markup_text(one.name), occurrence == 1 ? "" : fmt::format(" ({})", occurrence),
                       time_attribute(report, seconds_of(report, one.name)));
    xml += one.problem.empty()
               ? "/>\n"
               : fmt::format(">\n      <{0} type=\"{1}\" message=\"{2}\">{3}</{0}>\n    </testcase>\n",
                             one.problem, markup_text(one.type), markup_text(one.message),
                             markup_text(one.text));
  }
  return xml;
}

/// Returns the texts that are not testcases: the source of the scenario, and its warnings.
std::string said(const ScenarioReport& report) {
  std::string text = "source: " + (report.source.empty() ? "none given" : report.source);
  for (const sim::Warning& warning : report.warnings)
    text += "\nwarning: " + warning.name + ": " + warning.message;
  return "    <system-out>" + markup_text(text) + "</system-out>\n";
}

}  // namespace

std::string report_junit(const std::vector<ScenarioReport>& reports, std::string_view command) {
  std::vector<Testcase> all;
  std::string suites;
  for (const ScenarioReport& report : reports) {
    const std::vector<Testcase> cases = testcases_of(report);
    all.insert(all.end(), cases.begin(), cases.end());
    suites += fmt::format("  <testsuite name=\"{}\"{}{}>\n{}{}  </testsuite>\n", markup_text(report.name),
                          counts(cases), time_attribute(report, seconds_of(report)), cases_xml(report, cases),
                          said(report));
  }
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"shardproof {}\"{}>\n{}</testsuites>\n",
      command, counts(all), suites);
}

}  // namespace verify
