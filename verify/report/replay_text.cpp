#include <fmt/color.h>
#include <fmt/format.h>

#include "sim/layout/consumer_traps.h"
#include "verify/output/phrases.h"
#include "verify/output/text_table.h"
#include "verify/replay/scenario_report.h"
#include "verify/report/bandwidth_table.h"
#include "verify/report/replay_forms.h"

namespace verify {

namespace {

fmt::text_style style(bool good, bool colour) {
  if (!colour) return {};
  return fmt::fg(good ? fmt::terminal_color::green : fmt::terminal_color::red);
}

/// Returns the ledger as a table of calls and bytes, with one row per kind, summed over all sites.
std::string ledger_text(const std::vector<sim::LedgerRow>& ledger) {
  TextTable table(
      {"ledger", ">calls", ">elements", ">bytes inside a node", ">across nodes", ">most on a rank"});
  for (const sim::LedgerRow& sum : ledger_by_kind(ledger)) {
    table.row(sum.kind, sum.calls, sum.elements, sum.bytes_inside, sum.bytes_across, sum.most_bytes);
  }
  return table.text("  ");
}

/// Returns the ledger of a step at full size: one row for each kind of groups, site and operation.
std::string step_text(const std::vector<sim::LedgerRow>& ledger) {
  TextTable table({"step", "site", "operation", ">calls", ">elements", ">bytes inside a node",
                   ">across nodes", ">most on a rank"});
  for (const sim::LedgerRow& row : ledger) {
    table.row(row.kind, row.site, sim::name_of(row.operation), row.calls, row.elements,
              byte_text(row.bytes_inside), byte_text(row.bytes_across), byte_text(row.most_bytes));
  }
  return table.text("  ");
}

void add_refusal(TextTable& table, const sim::Refusal& refusal, bool colour) {
  table.add({"REFUSED", refusal.code, refusal.option + ": " + refusal.numbers}, style(false, colour));
  table.row("", "rule", refusal.rule);
  table.row("", "try", refusal.hint);
}

/// Returns the rows of the checks, of the warnings and of what was refused.
std::string rows_text(const ScenarioReport& report, bool colour) {
  TextTable table({"", "", ""});
  for (const CheckResult& check : report.checks) {
    table.add({check.holds ? "ok" : "FAILED", check.check, check.detail}, style(check.holds, colour));
  }
  for (const AbsentRow& row : report.absent) {
    if (row.is_asked_for) {
      table.add({"SKIPPED", row.check, row.reason}, style(report.allows_skipped, colour));
    } else {
      table.row("-", row.check, "no row: " + row.reason);
    }
  }
  for (const sim::Warning& warning : report.warnings) {
    const bool is_trap = sim::is_consumer_trap(warning);
    table.add({is_trap ? "SUSPECT" : "warning", warning.name, warning.message},
              is_trap ? style(false, colour) : fmt::text_style());
  }
  if (report.refusal) add_refusal(table, *report.refusal, colour);
  for (const sim::Refusal& refusal : report.further_refusals) add_refusal(table, refusal, colour);
  return table.text("  ");
}

}  // namespace

std::string replay_text(const ScenarioReport& report, bool colour) {
  std::string text =
      fmt::format("{}  ({})\n", report.name, report.source.empty() ? "no source given" : report.source);
  text += rows_text(report, colour);
  if (report.step) text += step_text(report.step->ledger);
  if (!report.ledger.empty() && !report.has_row("collectives")) text += ledger_text(report.ledger);
  if (!report.bandwidth.empty()) text += "\n" + bandwidth_text(report.bandwidth, "  ");
  for (const sim::Finding& finding : report.findings) {
    text += "\n" + sim::text_of(finding, report.reproduce);
  }
  if (report.verdict() != kVerified && report.findings.empty())
    text += "  reproduce: " + report.reproduce + "\n";
  return text + "\n";
}

std::string replay_summary_text(const std::vector<ScenarioReport>& reports, bool colour) {
  const bool good = overall(reports) == kVerified;
  return fmt::format(style(good, colour), "{}", summary_line(reports)) + "\n" + text_of(bound_of(reports));
}

}  // namespace verify
