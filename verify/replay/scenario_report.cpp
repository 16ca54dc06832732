#include "verify/replay/scenario_report.h"

#include <algorithm>
#include <cstdint>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <utility>

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
  if (is_suspect && !has_row("suspect")) return kSuspect;
  return !allows_skipped && std::ranges::any_of(absent, &AbsentRow::is_asked_for) ? kInPart : kVerified;
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
  if (count_of(reports, kSuspect) > 0) return kSuspect;
  return count_of(reports, kInPart) > 0 ? kInPart : kVerified;
}

namespace {

/// Returns what did not run although it was asked for, rows of one reason together: "memory not checked
/// (--vocab-size is not given); ".
std::string skipped_text(const std::vector<ScenarioReport>& reports) {
  std::string text;
  for (const ScenarioReport& report : reports) {
    if (report.verdict() != kInPart) continue;
    std::vector<std::pair<std::string, std::string>> of_reasons;  // the reason, and the rows
    for (const AbsentRow& row : report.absent) {
      if (!row.is_asked_for) continue;
      const auto found =
          std::ranges::find(of_reasons, row.reason, &std::pair<std::string, std::string>::first);
      if (found == of_reasons.end()) {
        of_reasons.emplace_back(row.reason, row.check);
      } else {
        found->second += ", " + row.check;
      }
    }
    if (reports.size() > 1) text += report.name + ": ";
    for (const auto& [reason, rows] : of_reasons) text += fmt::format("{} not checked ({}); ", rows, reason);
  }
  return text;
}

}  // namespace

std::string summary_line(const std::vector<ScenarioReport>& reports) {
  std::int64_t checks = 0;
  std::int64_t warnings = 0;
  for (const ScenarioReport& report : reports) {
    checks += std::ssize(report.checks);
    warnings += std::ssize(report.warnings);
  }
  const ExitCode verdict = overall(reports);
  const auto some = [&](ExitCode code) {
    const std::size_t count = count_of(reports, code);
    return count == 0 ? "" : fmt::format("{} {}, ", count, verdict_name(code));
  };
  return fmt::format("{}: {}{}, {}; {} verified, {} falsified, {} broken, {} refused, {}{}{}",
                     verdict_name(verdict), verdict == kInPart ? skipped_text(reports) : "",
                     counted(std::ssize(reports), "scenario"), counted(checks, "check"),
                     count_of(reports, kVerified), count_of(reports, kFalsified), count_of(reports, kBroken),
                     count_of(reports, kRefused), some(kInPart), some(kSuspect),
                     counted(warnings, "warning"));
}

Bound bound_of(const std::vector<ScenarioReport>& reports) {
  const auto has = [&](const char* row) {
    return std::ranges::any_of(reports, [&](const ScenarioReport& report) { return report.has_row(row); });
  };
  if (!has("partition")) return {};
  Bound bound{.ran = {}, .not_proved = {"your own program, which `run` executes"}};
  const auto add = [&](const char* row, const char* words) {
    if (has(row)) bound.ran.emplace_back(words);
  };
  add("collectives", "collectives on virtual ranks");
  add("sharded serial", "layers of shardproof in drawn sizes");
  add("step", "the calls of a step at full size");
  add("program", "a planted program on virtual ranks");
  add("finding", "a planted program on virtual ranks");
  add("case", "one case of check");
  if (reports.size() == 1 && reports.front().training) {
    const TrainingCurve& training = *reports.front().training;
    bound.ran.push_back(fmt::format(
        "a training of shardproof at {} ({})", training.world,
        training.reduced.empty() ? training.model : fmt::format("{}", fmt::join(training.reduced, ", "))));
    bound.not_proved.insert(bound.not_proved.end(), training.left_out.begin(), training.left_out.end());
  } else {
    add("training", "trainings of shardproof, reduced as their rows say");
  }
  const bool has_reduced = has("sharded serial") || has("training");
  if (has("step") && !has_reduced)
    bound.not_proved.emplace_back("layers and trainings, which `--prove` or `check` prove in reduced sizes");
  if (bound.ran.empty()) bound.ran.emplace_back("no rank: only the layout was proved");
  return bound;
}

std::string text_of(const Bound& bound) {
  if (bound.ran.empty()) return "";
  return fmt::format("ran: {}\nnot proved: {}\n", fmt::join(bound.ran, "; "),
                     fmt::join(bound.not_proved, "; "));
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
