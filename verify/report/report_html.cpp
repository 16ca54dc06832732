#include "verify/report/report_html.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fmt/format.h>

#include "sim/world/finding.h"
#include "verify/output/markup.h"
#include "verify/output/phrases.h"
#include "verify/replay/replay_summary.h"
#include "verify/report/curve_html.h"
#include "verify/report/ledger_by_kind.h"
#include "verify/report/pipeline_html.h"
#include "verify/report/rank_grid_html.h"
#include "verify/report/report_style.h"
#include "verify/report/share_bar.h"

namespace verify {

namespace {

std::string verdict_html(Verdict verdict) {
  return fmt::format("<span class=\"{}\">{}</span>", verdict == Verdict::verified ? "good" : "bad",
                     verdict_name(verdict));
}

std::string number_cell(const std::string& text) { return "<td class=\"number\">" + text + "</td>"; }

std::string number_cell(std::int64_t number) { return number_cell(fmt::format("{}", number)); }

std::string key(int part, const char* name) {
  return fmt::format("<span class=\"key part{}\"></span>{}", part, name);
}

// ---- the summary ------------------------------------------------------------------------------------------

std::string summary_row(const ScenarioReport& report, std::size_t number) {
  const auto holding = std::count_if(report.checks.begin(), report.checks.end(),
                                     [](const CheckResult& check) { return check.holds; });
  return fmt::format("<tr><td class=\"wide\"><a href=\"#s{}\">{}</a></td><td>{}</td>", number,
                     markup_text(report.name), verdict_html(report.verdict())) +
         number_cell(fmt::format("{} of {}", holding, report.checks.size())) +
         number_cell(report.layout ? fmt::format("{}", report.layout->grid_size) : "-") +
         number_cell(std::ssize(report.warnings)) + number_cell(std::ssize(report.findings)) + "</tr>\n";
}

std::string summary(const std::vector<ScenarioReport>& reports) {
  std::string html = fmt::format(
      "<h1>shardproof replay: {}</h1>\n<p>{}</p>\n<div class=\"scroll\"><table><thead><tr><th>scenario</th>"
      "<th>verdict</th><th class=\"number\">checks</th><th class=\"number\">ranks</th>"
      "<th class=\"number\">warnings</th><th class=\"number\">findings</th></tr></thead><tbody>\n",
      verdict_html(overall(reports)), summary_line(reports));
  for (std::size_t i = 0; i < reports.size(); ++i) html += summary_row(reports[i], i + 1);
  return html + "</tbody></table></div>\n";
}

// ---- the parts of a scenario ------------------------------------------------------------------------------

std::string options_html(const std::vector<std::string>& options) {
  if (options.empty()) return "";
  std::string html = "<h3>Options</h3>\n<pre>";
  for (const std::string& option : options) html += markup_text(option) + "\n";
  return html + "</pre>\n";
}

std::string checks_html(const std::vector<CheckResult>& checks, const std::vector<AbsentRow>& absent) {
  if (checks.empty()) return "";
  std::string html =
      "<h3>Checks</h3>\n<div class=\"scroll\"><table><thead><tr><th></th><th>check</th><th>what was "
      "found</th>"
      "</tr></thead><tbody>\n";
  for (const CheckResult& check : checks) {
    html += fmt::format("<tr><td class=\"{}\">{}</td><td>{}</td><td class=\"wide\">{}</td></tr>\n",
                        check.holds ? "good" : "bad", check.holds ? "ok" : "FAILED", markup_text(check.check),
                        markup_text(check.detail));
  }
  for (const AbsentRow& row : absent) {
    html += fmt::format("<tr><td class=\"soft\">-</td><td>{}</td><td class=\"wide\">no row: {}</td></tr>\n",
                        markup_text(row.check), markup_text(row.reason));
  }
  return html + "</tbody></table></div>\n";
}

std::string warnings_html(const std::vector<sim::Warning>& warnings) {
  if (warnings.empty()) return "";
  std::string html = "<h3>Warnings</h3>\n";
  for (const sim::Warning& warning : warnings) {
    html += fmt::format("<p><span class=\"care\">{}</span> {}</p>\n", markup_text(warning.name),
                        markup_text(warning.message));
  }
  return html;
}

std::string refusal_html(const sim::Refusal& refusal) {
  std::string html = fmt::format("<h3>Refused: <span class=\"bad\">{}</span></h3>\n<table><tbody>\n",
                                 markup_text(refusal.code));
  const auto row = [&](const char* name, const std::string& text) {
    html += fmt::format("<tr><th>{}</th><td class=\"wide\">{}</td></tr>\n", name, markup_text(text));
  };
  row("where", refusal.option);
  row("given", refusal.numbers);
  row("rule", refusal.rule);
  row("try", refusal.hint);
  return html + "</tbody></table>\n";
}

std::string findings_html(const ScenarioReport& report) {
  if (report.findings.empty()) return "";
  const bool expected = report.verdict() == Verdict::verified || report.verdict() == Verdict::suspect;
  std::string html = fmt::format("<h3>Findings{}</h3>\n", expected ? ", as expected" : "");
  for (const sim::Finding& finding : report.findings)
    html += "<pre>" + markup_text(sim::text_of(finding, report.reproduce)) + "</pre>\n";
  return html;
}

std::string ranks_html(const ScenarioReport& report) {
  if (!report.layout) return "";
  const sim::Layout& layout = *report.layout;
  std::string html =
      fmt::format("<h3>Ranks by node</h3>\n<p>{} on nodes of {}: tp {}, cp {}, dp {}, pp {}",
                  counted(layout.grid_size, "rank"), counted(report.nodes.gpus_per_node, "GPU"), layout.tp,
                  layout.cp, layout.dp, layout.pp);
  if (layout.ep > 1 || layout.etp != layout.tp)
    html += fmt::format("; experts: etp {}, ep {}, edp {}", layout.etp, layout.ep, layout.edp);
  return html + ".</p>\n" + rank_grid_html(layout, report.nodes);
}

std::string schedule_html(const ScenarioReport& report) {
  if (!report.schedule && report.no_schedule.empty()) return "";
  const std::string heading = "<h3>Pipeline schedule</h3>\n";
  if (report.schedule) return heading + pipeline_html(*report.schedule);
  return heading + "<p>Not drawn: " + markup_text(report.no_schedule) + ".</p>\n";
}

std::string ledger_html(const std::vector<sim::LedgerRow>& ledger) {
  if (ledger.empty()) return "";
  const std::vector<sim::LedgerRow> rows = ledger_by_kind(ledger);
  std::int64_t longest = 0;
  for (const sim::LedgerRow& row : rows) longest = std::max(longest, row.bytes_inside + row.bytes_across);
  std::string html =
      "<h3>Bytes sent, by group kind</h3>\n<p>As a ring algorithm sends them, over all ranks of the run:" +
      key(0, "inside a node") + key(1, "across nodes") +
      "</p>\n<div class=\"scroll\"><table><thead><tr><th>kind</th><th></th><th class=\"number\">calls</th>"
      "<th class=\"number\">elements</th><th class=\"number\">inside a node</th><th class=\"number\">across "
      "nodes</th><th class=\"number\">most on a rank</th></tr></thead><tbody>\n";
  for (const sim::LedgerRow& row : rows) {
    html += "<tr><td class=\"name\">" + markup_text(row.kind) + "</td><td>" +
            share_bar({row.bytes_inside, row.bytes_across}, longest) + "</td>" + number_cell(row.calls) +
            number_cell(row.elements) + number_cell(byte_text(row.bytes_inside)) +
            number_cell(byte_text(row.bytes_across)) + number_cell(byte_text(row.most_bytes)) + "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

std::string memory_html(const MemoryReport& memory) {
  constexpr std::size_t kMostStages = 64;
  const std::size_t shown = std::min(memory.stages.size(), kMostStages);
  std::int64_t most = 0;
  for (const HeldBytes& held : memory.stages) most = std::max(most, held.all());
  std::string html =
      "<h3>Memory of a rank, by pipeline stage</h3>\n<p>bf16 training; ZeRO-1 over " +
      counted(memory.owners, "owner") + ", the one that owns most. " +
      (memory.has_activations ? "Activations where most are in flight:" : "Without activations:") +
      key(0, "parameters") + key(1, "gradients") + key(2, "optimizer states") + key(3, "activations") +
      "</p>\n";
  if (shown < memory.stages.size())
    html += fmt::format("<p>The first {} of {} stages.</p>\n", shown, memory.stages.size());
  html +=
      "<div class=\"scroll\"><table><thead><tr><th class=\"number\">stage</th><th></th><th "
      "class=\"number\">parameters</th><th class=\"number\">gradients</th><th class=\"number\">optimizer "
      "states</th><th class=\"number\">activations</th><th "
      "class=\"number\">together</th></tr></thead><tbody>\n";
  for (std::size_t stage = 0; stage < shown; ++stage) {
    const HeldBytes& held = memory.stages[stage];
    html += "<tr>" + number_cell(static_cast<std::int64_t>(stage)) + "<td>" +
            share_bar({held.parameters, held.gradients, held.optimizer, held.activations}, most) + "</td>" +
            number_cell(byte_text(held.parameters)) + number_cell(byte_text(held.gradients)) +
            number_cell(byte_text(held.optimizer)) + number_cell(byte_text(held.activations)) +
            number_cell(byte_text(held.all())) + "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

std::string scenario_html(const ScenarioReport& report, std::size_t number) {
  std::string html = fmt::format("<section id=\"s{}\">\n<h2>{}: {}</h2>\n<p class=\"soft\">{}</p>\n", number,
                                 markup_text(report.name), verdict_html(report.verdict()),
                                 markup_text(report.source.empty() ? "no source given" : report.source));
  if (report.verdict() != Verdict::verified)
    html += "<p>To see it again:</p>\n<pre>" + markup_text(report.reproduce) + "</pre>\n";
  if (report.refusal) html += refusal_html(*report.refusal);
  for (const sim::Refusal& refusal : report.further_refusals) html += refusal_html(refusal);
  html += options_html(report.options) + checks_html(report.checks, report.absent) + findings_html(report) +
          warnings_html(report.warnings);
  if (report.training) html += "<h3>Training</h3>\n" + curve_html(*report.training);
  html += ranks_html(report) + schedule_html(report);
  if (report.memory) html += memory_html(*report.memory);
  html += ledger_html(report.ledger);
  return html + "<p><a href=\"#top\">to the summary</a></p>\n</section>\n";
}

}  // namespace

std::string report_html(const std::vector<ScenarioReport>& reports) {
  std::string html = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\" id=\"top\">\n<head>\n<meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
      "'unsafe-inline'\"/>\n<title>shardproof: {}</title>\n<style>{}</style>\n</head>\n<body>\n<main>\n",
      summary_line(reports), report_style());
  html += summary(reports);
  for (std::size_t i = 0; i < reports.size(); ++i) html += scenario_html(reports[i], i + 1);
  return html + "</main>\n</body>\n</html>\n";
}

}  // namespace verify
