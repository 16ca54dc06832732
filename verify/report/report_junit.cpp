#include "verify/report/report_junit.h"

#include <algorithm>
#include <cstdint>
#include <fmt/format.h>
#include <map>

#include "sim/layout/consumer_traps.h"
#include "sim/world/finding.h"
#include "verify/output/markup.h"

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

/// The numbers of testcases, and the attributes that say them.
struct Counts {
  std::int64_t tests = 0, failures = 0, errors = 0;
  std::string text() const {
    return fmt::format(" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"0\"", tests, failures, errors);
  }
};

/// The testcases of one scenario.
class Suite {
 public:
  Suite(const ScenarioReport& report, Counts& all) : report_(report), all_(all) {
    for (const CheckResult& check : report.checks) {
      if (check.holds)
        add_case(check.check, "");
      else
        add_failure(check.check, "check", check.detail);
    }
    if (report.refusal) add(*report.refusal);
    for (const sim::Refusal& refusal : report.further_refusals) add(refusal);
    // A warning that says that results are wrong fails the build.
    for (const sim::Warning& warning : report.warnings)
      if (sim::is_consumer_trap(warning) && !report.has_row("suspect"))
        add_failure("warning " + warning.name, warning.name, warning.message);
    if (report.verdict() != Verdict::broken) return;
    for (const sim::Finding& finding : report.findings)
      add_error("finding " + finding.code, finding.code, finding.sentence,
                sim::text_of(finding, report.reproduce));
  }

  std::string text() const {
    return fmt::format("  <testsuite name=\"{}\"{}{}>\n", markup_text(report_.name), own_.text(),
                       time_attribute(report_, seconds_of(report_))) +
           cases_ + said() + "  </testsuite>\n";
  }

 private:
  void add(const sim::Refusal& refusal) {
    const std::string message = refusal.option + ": " + refusal.numbers;
    add_error("refusal " + refusal.code, refusal.code, message,
              with_reproduce(message + "\nrule: " + refusal.rule + "\ntry: " + refusal.hint));
  }

  void add_failure(const std::string& name, const std::string& type, const std::string& message) {
    ++own_.failures;
    ++all_.failures;
    add_problem(name, "failure", type, message, with_reproduce(message));
  }

  void add_error(const std::string& name, const std::string& type, const std::string& message,
                 const std::string& text) {
    ++own_.errors;
    ++all_.errors;
    add_problem(name, "error", type, message, text);
  }

  void add_problem(const std::string& name, const char* problem, const std::string& type,
                   const std::string& message, const std::string& text) {
    add_case(name, fmt::format("      <{} type=\"{}\" message=\"{}\">{}</{}>\n", problem, markup_text(type),
                               markup_text(message), markup_text(text), problem));
  }

  /// A name that occurs again gets a number, because readers identify a testcase by its name.
  void add_case(const std::string& name, const std::string& problem) {
    ++own_.tests;
    ++all_.tests;
    const int occurrence = ++occurrences_[name];
    const std::string unique = occurrence == 1 ? name : fmt::format("{} ({})", name, occurrence);
    const std::string start =
        fmt::format("    <testcase classname=\"{}\" name=\"{}\"{}", markup_text(report_.name),
                    markup_text(unique), time_attribute(report_, seconds_of(report_, name)));
    cases_ += problem.empty() ? start + "/>\n" : start + ">\n" + problem + "    </testcase>\n";
  }

  std::string with_reproduce(const std::string& text) const {
    return text + "\nreproduce: " + report_.reproduce;
  }

  /// Returns the texts that are not testcases: the source of the scenario, and its warnings.
  std::string said() const {
    std::string text = "source: " + (report_.source.empty() ? "none given" : report_.source);
    for (const sim::Warning& warning : report_.warnings)
      text += "\nwarning: " + warning.name + ": " + warning.message;
    return "    <system-out>" + markup_text(text) + "</system-out>\n";
  }

  const ScenarioReport& report_;
  Counts& all_;  // of all scenarios
  Counts own_;
  std::map<std::string, int> occurrences_;
  std::string cases_;
};

}  // namespace

std::string report_junit(const std::vector<ScenarioReport>& reports) {
  Counts all;
  std::string suites;
  for (const ScenarioReport& report : reports) suites += Suite(report, all).text();
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"shardproof replay\"" + all.text() +
         ">\n" + suites + "</testsuites>\n";
}

}  // namespace verify
