#include "verify/replay/scenario_report.h"

#include <algorithm>
#include <cstdint>
#include <fmt/format.h>

#include "sim/layout/consumer_traps.h"
#include "verify/output/phrases.h"

namespace verify {

ExitCode ScenarioReport::verdict() const {
  if (refusal) return kRefused;
  if (!findings.empty() && !has_row("finding")) return kBroken;
  const bool all_hold =
      std::all_of(checks.begin(), checks.end(), [](const CheckResult& c) { return c.holds; });
  if (!all_hold) return kFalsified;
  const bool is_suspect = std::any_of(warnings.begin(), warnings.end(), sim::is_consumer_trap);
  return is_suspect && !has_row("suspect") ? kSuspect : kVerified;
}

bool ScenarioReport::has_row(const std::string& check) const {
  return std::any_of(checks.begin(), checks.end(), [&](const CheckResult& c) { return c.check == check; });
}

std::size_t count_of(const std::vector<ScenarioReport>& reports, ExitCode verdict) {
  return static_cast<std::size_t>(
      std::count_if(reports.begin(), reports.end(),
                    [&](const ScenarioReport& report) { return report.verdict() == verdict; }));
}

ExitCode overall(const std::vector<ScenarioReport>& reports) {
  if (count_of(reports, kFalsified) > 0) return kFalsified;
  if (count_of(reports, kBroken) > 0) return kBroken;
  if (count_of(reports, kRefused) > 0) return kRefused;
  return count_of(reports, kSuspect) > 0 ? kSuspect : kVerified;
}

std::string summary_line(const std::vector<ScenarioReport>& reports) {
  std::int64_t checks = 0;
  std::int64_t warnings = 0;
  for (const ScenarioReport& report : reports) {
    checks += std::ssize(report.checks);
    warnings += std::ssize(report.warnings);
  }
  const std::size_t suspect = count_of(reports, kSuspect);
  return fmt::format("{}: {}, {}; {} verified, {} falsified, {} broken, {} refused, {}{}",
                     verdict_name(overall(reports)), counted(std::ssize(reports), "scenario"),
                     counted(checks, "check"), count_of(reports, kVerified), count_of(reports, kFalsified),
                     count_of(reports, kBroken), count_of(reports, kRefused),
                     suspect == 0 ? "" : fmt::format("{} suspect, ", suspect), counted(warnings, "warning"));
}

std::vector<sim::LedgerRow> ledger_by_kind(const std::vector<sim::LedgerRow>& ledger) {
  std::vector<sim::LedgerRow> sums;
  for (const sim::LedgerRow& row : ledger) {
    if (sums.empty() || sums.back().kind != row.kind) sums.push_back({.kind = row.kind});
    sim::LedgerRow& sum = sums.back();
    sum.calls += row.calls;
    sum.elements += row.elements;
    sum.bytes_inside += row.bytes_inside;
    sum.bytes_across += row.bytes_across;
    sum.most_bytes += row.most_bytes;
  }
  return sums;
}

}  // namespace verify
