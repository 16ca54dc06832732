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

std::string counts(std::int64_t tests, std::int64_t failures, std::int64_t errors) {
  return fmt::format(" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"0\"", tests, failures, errors);
}

/// Returns the element of a problem, which is a "failure" or an "error".
std::string problem_xml(const char* problem, const std::string& type, const std::string& message,
                        const std::string& text) {
  return fmt::format("      <{} type=\"{}\" message=\"{}\">{}</{}>\n", problem, markup_text(type),
                     markup_text(message), markup_text(text), problem);
}

/// The testcases of one scenario, and the numbers of tests, failures and errors.
class Suite {
 public:
  explicit Suite(const ScenarioReport& report) : report_(report) {
    for (const CheckResult& check : report.checks) add(check);
    if (report.refusal) add(*report.refusal);
    for (const sim::Refusal& refusal : report.further_refusals) add(refusal);
    for (const sim::Warning& warning : report.warnings)
      if (sim::is_consumer_trap(warning) && !report.has_row("suspect")) add(warning);
    if (report.verdict() != Verdict::broken) return;
    for (const sim::Finding& finding : report.findings) add(finding);
  }

  std::int64_t tests() const { return tests_; }
  std::int64_t failures() const { return failures_; }
  std::int64_t errors() const { return errors_; }

  std::string text() const {
    return fmt::format("  <testsuite name=\"{}\"{}{}>\n", markup_text(report_.name),
                       counts(tests_, failures_, errors_), time_attribute(report_, seconds_of(report_))) +
           cases_ + said() + "  </testsuite>\n";
  }

 private:
  void add(const CheckResult& check) {
    failures_ += check.holds ? 0 : 1;
    add_case(check.check,
             check.holds ? "" : problem_xml("failure", "check", check.detail, with_reproduce(check.detail)));
  }

  void add(const sim::Refusal& refusal) {
    ++errors_;
    const std::string message = refusal.option + ": " + refusal.numbers;
    add_case("refusal " + refusal.code,
             problem_xml("error", refusal.code, message,
                         with_reproduce(message + "\nrule: " + refusal.rule + "\ntry: " + refusal.hint)));
  }

  /// A warning that says that results are wrong fails the build.
  void add(const sim::Warning& warning) {
    ++failures_;
    add_case("warning " + warning.name,
             problem_xml("failure", warning.name, warning.message, with_reproduce(warning.message)));
  }

  void add(const sim::Finding& finding) {
    ++errors_;
    add_case("finding " + finding.code,
             problem_xml("error", finding.code, finding.sentence, sim::text_of(finding, report_.reproduce)));
  }

  /// A name that occurs again gets a number, because readers identify a testcase by its name.
  void add_case(const std::string& name, const std::string& problem) {
    ++tests_;
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
  std::map<std::string, int> occurrences_;
  std::int64_t tests_ = 0, failures_ = 0, errors_ = 0;
  std::string cases_;
};

}  // namespace

std::string report_junit(const std::vector<ScenarioReport>& reports) {
  std::int64_t tests = 0, failures = 0, errors = 0;
  std::string suites;
  for (const ScenarioReport& report : reports) {
    const Suite suite(report);
    tests += suite.tests();
    failures += suite.failures();
    errors += suite.errors();
    suites += suite.text();
  }
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"shardproof replay\"" +
         counts(tests, failures, errors) + ">\n" + suites + "</testsuites>\n";
}

}  // namespace verify
