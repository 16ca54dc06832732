#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <fmt/format.h>
#include <optional>
#include <string>
#include <vector>

#include "sim/pipeline/schedule_checks.h"
#include "sim/world/finding.h"
#include "verify/checks/pipeline_schedule.h"
#include "verify/output/markup.h"
#include "verify/output/phrases.h"
#include "verify/replay/scenario_report.h"
#include "verify/report/html_table.h"
#include "verify/report/replay_forms.h"
#include "verify/requests/requests.h"
#include "verify/views/schedule_view.h"

namespace verify {

namespace {

// ---- the ranks by node

constexpr int kColours = 8;  // the classes g0 to g7 of the style sheet
constexpr int kNodesOfALargeWorld = 8;

int drawn_ranks(const sim::Layout& layout, const sim::NodePlacement& nodes) {
  if (layout.grid_size <= kMostDrawnRanks) return layout.grid_size;
  const std::int64_t of_nodes = std::int64_t{nodes.gpus_per_node} * kNodesOfALargeWorld;
  return static_cast<int>(std::min<std::int64_t>(of_nodes, kMostDrawnRanks));
}

std::string cell(const sim::Layout& layout, const sim::GroupKind* tp, int rank) {
  const auto place = tp != nullptr ? tp->place_of(rank) : std::nullopt;
  const std::string coordinates = cell_text(layout.dense, rank);
  return fmt::format("<span class=\"g{}\">{}{}</span>", place ? place->group % kColours : 0, rank,
                     coordinates.empty() ? "" : "<small>" + coordinates + "</small>");
}

// ---- the losses
//
// The losses of a training as a line chart (inline SVG) and as a table. The losses of the ranks are compared
// with those of one device.
//
// Shapes  steps that have both losses are shown. A loss that is not finite breaks the line of the chart, and
//         is shown in the table. The table has at most kMostCurveRows rows, and says if rows are left out.

constexpr int kMostCurveRows = 512;
constexpr double kLeft = 70, kRight = 470, kChartTop = 20, kBottom = 240;

std::size_t steps_in(const TrainingCurve& curve) {
  return std::min(curve.losses.size(), curve.reference.size());
}

/// The range of the losses in a chart.
struct Extent {
  double least = 0;
  double most = 0;
};

Extent extent_of(const TrainingCurve& curve) {
  Extent extent;
  bool any = false;
  for (const auto* losses : {&curve.losses, &curve.reference}) {
    for (std::size_t i = 0; i < steps_in(curve); ++i) {
      const double loss = (*losses)[i];
      if (!std::isfinite(loss)) continue;
      extent.least = any ? std::min(extent.least, loss) : loss;
      extent.most = any ? std::max(extent.most, loss) : loss;
      any = true;
    }
  }
  return extent;
}

double x_of(std::size_t step, std::size_t steps) {
  if (steps < 2) return (kLeft + kRight) / 2;
  return kLeft + (kRight - kLeft) * static_cast<double>(step) / static_cast<double>(steps - 1);
}

double y_of(double loss, const Extent& extent) {
  if (extent.most <= extent.least) return (kChartTop + kBottom) / 2;
  // Both differences are computed by halves, because the range of two finite losses may be infinite.
  const double above = extent.most / 2 - loss / 2, range = extent.most / 2 - extent.least / 2;
  return kChartTop + (kBottom - kChartTop) * (above / range);
}

/// Returns a path that is interrupted where a loss is not finite. A single point is drawn as a short stroke.
std::string path(const std::vector<double>& losses, std::size_t steps, const Extent& extent) {
  std::string commands;
  bool is_down = false;
  for (std::size_t i = 0; i < steps; ++i) {
    if (std::isfinite(losses[i])) {
      commands +=
          fmt::format("{}{:.1f} {:.1f}", is_down ? 'L' : 'M', x_of(i, steps), y_of(losses[i], extent));
      if (!is_down) commands += "h1";
    }
    is_down = std::isfinite(losses[i]);
  }
  return commands;
}

std::string axes(const Extent& extent, std::size_t steps) {
  std::string svg;
  for (const double share : {0.0, 0.5, 1.0}) {
    const double y = kBottom + (kChartTop - kBottom) * share;
    const double loss = extent.least * (1 - share) + extent.most * share;
    svg += fmt::format(
        "<line class=\"axis\" x1=\"{}\" x2=\"{}\" y1=\"{}\" y2=\"{}\"/>"
        "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{:.6g}</text>\n",
        kLeft, kRight, y, y, kLeft - 8, y + 4, loss);
  }
  svg += fmt::format("<text x=\"{}\" y=\"{}\">step 1</text>\n", kLeft, kBottom + 24);
  return svg + fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">step {}</text>\n", kRight,
                           kBottom + 24, steps);
}

std::string chart(const TrainingCurve& curve) {
  const std::size_t steps = steps_in(curve);
  const Extent extent = extent_of(curve);
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"curve\" viewBox=\"0 0 480 280\" role=\"img\">\n"
      "<title>loss by step, of the ranks and of one device</title>\n{}"
      "<path class=\"line1\" d=\"{}\"/>\n<path class=\"line0\" d=\"{}\"/>\n</svg>\n"
      "<p><span class=\"key part0\"></span>ranks (f32)<span class=\"key part1\"></span>one device "
      "(double)</p>\n",
      axes(extent, steps), path(curve.reference, steps, extent), path(curve.losses, steps, extent));
}

std::string table(const TrainingCurve& curve) {
  const std::size_t steps = steps_in(curve);
  const std::size_t rows = std::min<std::size_t>(steps, kMostCurveRows);
  std::string html;
  if (rows < steps) html += fmt::format("<p>The first {} of {} steps.</p>\n", rows, steps);
  html +=
      "<div class=\"scroll\"><table><thead><tr><th class=\"number\">step</th><th class=\"number\">ranks</th>"
      "<th class=\"number\">one device</th><th class=\"number\">difference</th><th class=\"number\">rounding "
      "allows</th></tr></thead><tbody>\n";
  for (std::size_t i = 0; i < rows; ++i) {
    html += fmt::format(
        "<tr><td class=\"number\">{}</td><td class=\"number\">{:.9g}</td><td class=\"number\">{:.9g}</td>"
        "<td class=\"number\">{:.3g}</td><td class=\"number\">{}</td></tr>\n",
        i + 1, curve.losses[i], curve.reference[i], curve.losses[i] - curve.reference[i],
        i < curve.bounds.size() ? fmt::format("{:.3g}", curve.bounds[i]) : "-");
  }
  return html + "</tbody></table></div>\n";
}

std::string curve_html(const TrainingCurve& curve) {
  const std::string of_model = curve.model.empty() ? "" : "; " + markup_text(curve.model);
  std::string html =
      fmt::format("<p>{}{}. {}.</p>\n", markup_text(curve.world), of_model,
                  curve.is_equal_in_field ? "In exact arithmetic ranks and one device are equal"
                                          : "Not shown equal in exact arithmetic");
  const auto steps = static_cast<std::int64_t>(steps_in(curve));
  if (steps == 0) return html + "<p>No step has losses of both.</p>\n";
  return html + chart(curve) + "<details><summary>The losses of " + counted(steps, "step") + "</summary>\n" +
         table(curve) + "</details>\n";
}

// ---- the pipeline
//
// A scenario's pipeline schedule on the page of a replay: the time that it takes, and its Gantt chart.
//
// Shapes  a schedule of up to kMostReportedSteps steps over all ranks is drawn whole, and of a larger one the
//         first and the last units of time. One of more than kMostCountedSteps steps has a sentence.
// Calls   the request must be one that its schedule does not refuse.

inline constexpr std::int64_t kMostReportedSteps = 1024;
inline constexpr std::int64_t kLeastReportedTime = 64;  // steps of a rank in a part; chosen

std::string too_many(std::int64_t steps) {
  return fmt::format(
      "<p>Not drawn: {} steps over all ranks, and at most {} are timed. <code>./shardproof schedule</code> "
      "with fewer microbatches shows how they repeat.</p>\n",
      steps, kMostCountedSteps);
}

/// A schedule with its times.
struct TimedSchedule {
  sim::PipelineSchedule steps;
  sim::Timeline timeline;
};

std::string chart_of(const TimedSchedule& schedule, const TimeWindow& window, const std::string& title) {
  return fmt::format("<div class=\"scroll\"><div class=\"gantt\" style=\"width: {}px\">\n{}</div></div>\n",
                     schedule_svg_width(schedule.steps, window),
                     schedule_svg(schedule.steps, schedule.timeline, window, title));
}

/// Returns the parts of a timeline that are drawn.
std::vector<TimeWindow> drawn_parts(const ScheduleRequest& request, std::int64_t steps, std::int64_t length) {
  if (steps <= kMostReportedSteps) return {{.end = length}};
  const std::int64_t ranks = request.shape.ranks();
  const std::int64_t of_a_rank = std::max({kLeastReportedTime, kMostReportedSteps / 2 / ranks, 3 * ranks});
  const std::int64_t part = of_a_rank * std::max(request.cost.forward, request.cost.backward);
  if (2 * part >= length) return {{.end = length}};
  return {{.end = part}, {.begin = length - part, .end = length}};
}

std::string drawn(const ScheduleRequest& request, std::int64_t steps) {
  TimedSchedule schedule{.steps = make_schedule(request.schedule.function, request.shape), .timeline = {}};
  check(schedule.steps);
  schedule.timeline = sim::timeline(schedule.steps, request.cost);
  const sim::Timeline& timeline = schedule.timeline;
  std::string html = fmt::format(
      "<p>F takes {}, B {}: {} of time, of which a rank works {}; the bubble is {} of the work.</p>\n",
      request.cost.forward, request.cost.backward, counted(timeline.length, "unit"), timeline.work,
      bubble_share(timeline));
  const std::vector<TimeWindow> parts = drawn_parts(request, steps, timeline.length);
  for (const TimeWindow& part : parts)
    html += chart_of(schedule, part,
                     parts.size() == 1 ? title_of(request)
                                       : fmt::format("{}: time {} to {} of {}", title_of(request), part.begin,
                                                     part.end, timeline.length));
  return html;
}

std::string pipeline_html(const ScheduleRequest& request) {
  const std::int64_t steps = steps_of(request.shape);
  if (steps <= kMostCountedSteps) return drawn(request, steps);  // the chart has the title
  return fmt::format("<p>{}</p>\n", title_of(request)) + too_many(steps);
}

// ---- a bar of shares
//
// One line of a bar chart as inline SVG: parts side by side, each as long as its share of the whole.
//
// Shapes  there are at most four parts; their colours are the classes part0 to part3 of the style sheet.

std::string share_bar(const std::vector<std::int64_t>& parts, std::int64_t whole) {
  constexpr double kLength = 1000;
  std::string svg =
      "<svg class=\"bar\" viewBox=\"0 0 1000 10\" preserveAspectRatio=\"none\" aria-hidden=\"true\">";
  double x = 0;
  for (std::size_t i = 0; i < parts.size() && whole > 0; ++i) {
    const double length = kLength * static_cast<double>(parts[i]) / static_cast<double>(whole);
    if (parts[i] > 0)
      svg +=
          fmt::format("<rect class=\"part{}\" x=\"{:.1f}\" width=\"{:.1f}\" height=\"10\"/>", i, x, length);
    x += length;
  }
  return svg + "</svg>";
}

std::string verdict_html(ExitCode verdict) {
  return fmt::format("<span class=\"{}\">{}</span>", verdict == kVerified ? "good" : "bad",
                     verdict_name(verdict));
}

std::string key(int part, const char* name) {
  return fmt::format("<span class=\"key part{}\"></span>{}", part, name);
}

// ---- the summary ------------------------------------------------------------------------------------------

/// The ranks of the layout; a dash where the layout was refused.
HtmlCell ranks_cell(const ScenarioReport& report) {
  return report.layout ? number_cell(report.layout->grid_size) : HtmlCell{.html = "-", .key = -1};
}

std::vector<HtmlCell> summary_row(const ScenarioReport& report, std::size_t number) {
  const auto holding =
      std::ranges::count_if(report.checks, [](const CheckResult& check) { return check.holds; });
  return {
      {.html = fmt::format("<a href=\"#s{}\">{}</a>", number, markup_text(report.name)), .classes = "wide"},
      {.html = verdict_html(report.verdict()), .key = static_cast<std::int64_t>(report.verdict())},
      {.html = fmt::format("{} of {}", holding, report.checks.size()), .key = std::ssize(report.checks)},
      ranks_cell(report),
      number_cell(std::ssize(report.warnings)),
      number_cell(std::ssize(report.findings))};
}

std::string summary(const std::vector<ScenarioReport>& reports, std::string_view command) {
  HtmlTable table("summary", {{.title = "scenario", .sorts = Sorts::as_added},
                              {.title = "verdict", .sorts = Sorts::largest_first},
                              number_column("checks"),
                              number_column("ranks"),
                              number_column("warnings"),
                              number_column("findings")});
  for (std::size_t i = 0; i < reports.size(); ++i) table.add(summary_row(reports[i], i + 1));
  return fmt::format("<h1>shardproof {}: {}</h1>\n<p>{}</p>\n<p class=\"lines\">{}</p>\n", command,
                     verdict_html(overall(reports)), markup_text(summary_line(reports)),
                     markup_text(text_of(bound_of(reports)))) +
         table.html();
}

// ---- the parts of a scenario ------------------------------------------------------------------------------

std::string options_html(const std::vector<std::string>& options) {
  if (options.empty()) return "";
  std::string lines;
  for (const std::string& option : options) lines += markup_text(option) + "\n";
  return "<h3>Options</h3>\n" +
         folded("<pre>" + lines + "</pre>\n", std::ssize(options), counted(std::ssize(options), "option"));
}

std::string checks_html(const ScenarioReport& report, const std::string& id) {
  if (report.checks.empty()) return "";
  HtmlTable table(id + "-checks", {{.title = "row", .sorts = Sorts::largest_first},
                                   {.title = "check", .sorts = Sorts::as_added},
                                   {.title = "what was found"}});
  std::int64_t failed = 0;
  for (const CheckResult& check : report.checks) {
    failed += check.holds ? 0 : 1;
    table.add({{.html = check.holds ? "ok" : "FAILED",
                .key = check.holds ? 0 : 2,
                .classes = check.holds ? "good" : "bad"},
               {.html = markup_text(check.check)},
               {.html = markup_text(check.detail), .classes = "wide"}});
  }
  for (const AbsentRow& row : report.absent)
    table.add({{.html = row.is_asked_for ? "SKIPPED" : "-",
                .key = 1,
                .classes = row.is_asked_for ? "care" : "soft"},
               {.html = markup_text(row.check)},
               {.html = "no row: " + markup_text(row.reason), .classes = "wide"}});
  const std::string summary =
      fmt::format("{}: {} failed", counted(std::ssize(report.checks), "check"), failed);
  return "<h3>Checks</h3>\n" +
         folded(table.html(), std::ssize(report.checks) + std::ssize(report.absent), summary, failed > 0);
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
  const bool expected = report.has_row("finding") && report.verdict() != kFalsified;
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

std::string ledger_html(const std::vector<sim::LedgerRow>& ledger, const std::string& id) {
  if (ledger.empty()) return "";
  const std::vector<sim::LedgerRow> rows = ledger_by_kind(ledger);
  HtmlTable table(id + "-ledger", {{.title = "kind", .sorts = Sorts::as_added},
                                   {},
                                   number_column("calls"),
                                   number_column("elements"),
                                   number_column("inside a node"),
                                   number_column("across nodes"),
                                   number_column("most on a rank")});
  std::int64_t longest = 0;
  for (const sim::LedgerRow& row : rows) longest = std::max(longest, row.bytes_inside + row.bytes_across);
  sim::LedgerRow all;
  for (const sim::LedgerRow& row : rows) {
    table.add({{.html = markup_text(row.kind), .classes = "name"},
               {.html = share_bar({row.bytes_inside, row.bytes_across}, longest)},
               number_cell(row.calls),
               number_cell(row.elements),
               byte_cell(row.bytes_inside),
               byte_cell(row.bytes_across),
               byte_cell(row.most_bytes)});
    all.calls += row.calls;
    all.elements += row.elements;
    all.bytes_inside += row.bytes_inside;
    all.bytes_across += row.bytes_across;
  }
  table.set_foot({{.html = "all"},
                  {},
                  number_cell(all.calls),
                  number_cell(all.elements),
                  byte_cell(all.bytes_inside),
                  byte_cell(all.bytes_across),
                  {}});
  const std::string summary =
      fmt::format("{}: {} inside a node, {} across nodes", counted(std::ssize(rows), "kind"),
                  byte_text(all.bytes_inside), byte_text(all.bytes_across));
  return "<h3>Bytes sent, by group kind</h3>\n<p>Sum over all ranks, assuming ring collectives:" +
         key(0, "inside a node") + key(1, "across nodes") + "</p>\n" +
         folded(table.html(), std::ssize(rows), summary);
}

std::string memory_html(const MemoryReport& memory, const std::string& id) {
  constexpr std::size_t kMostStages = 64;
  const std::size_t shown = std::min(memory.stages.size(), kMostStages);
  std::int64_t most = 0;
  for (const StageMemory& held : memory.stages) most = std::max(most, held.peak_bytes());
  HtmlTable table(id + "-memory", {{.title = "stage", .sorts = Sorts::as_added, .is_number = true},
                                   {},
                                   number_column("parameters"),
                                   number_column("gradients"),
                                   number_column("optimizer states"),
                                   number_column("workspaces"),
                                   number_column("activations"),
                                   number_column("together")});
  for (std::size_t stage = 0; stage < shown; ++stage) {
    const StageMemory& held = memory.stages[stage];
    const std::int64_t workspaces = held.workspaces_and_buffers();
    const std::int64_t activations = held.passing_bytes();
    const std::int64_t states = held.main_parameters + held.optimizer_moments;
    table.add({number_cell(static_cast<std::int64_t>(stage)),
               {.html = share_bar({held.parameters, held.gradients, states, activations}, most)},
               byte_cell(held.parameters),
               byte_cell(held.gradients),
               byte_cell(held.optimizer()),
               byte_cell(workspaces),
               byte_cell(activations),
               byte_cell(held.peak_bytes())});
  }
  std::string html =
      "<h3>Memory of a rank, by pipeline stage</h3>\n<p>" + memory.state.dtypes + " training; " +
      (memory.state.is_distributed
           ? "ZeRO-1 over " + counted(memory.owners, "rank") +
                 (memory.expert_owners > 0 ? fmt::format(" (experts {})", memory.expert_owners) : "") +
                 "; largest shard. "
           : "no ZeRO-1, so every rank has all states. ") +
      (memory.has_activations ? "At peak activations:" : "Without activations:") + key(0, "parameters") +
      key(1, "gradients") + key(2, "optimizer states") + key(3, "activations") + "</p>\n";
  if (shown < memory.stages.size())
    html += fmt::format("<p>The first {} of {} stages.</p>\n", shown, memory.stages.size());
  const std::string summary = fmt::format(
      "{}: at most {} on a rank", counted(static_cast<std::int64_t>(shown), "stage"), byte_text(most));
  return html + folded(table.html(), static_cast<std::int64_t>(shown), summary);
}

std::string scenario_html(const ScenarioReport& report, std::size_t number) {
  const std::string id = fmt::format("s{}", number);
  std::string html = fmt::format("<section id=\"{}\">\n<h2>{}: {}</h2>\n<p class=\"soft\">{}</p>\n", id,
                                 markup_text(report.name), verdict_html(report.verdict()),
                                 markup_text(report.source.empty() ? "no source given" : report.source));
  if (report.verdict() != kVerified)
    html += "<p>To see it again:</p>\n<pre>" + markup_text(report.reproduce) + "</pre>\n";
  if (report.refusal) html += refusal_html(*report.refusal);
  for (const sim::Refusal& refusal : report.further_refusals) html += refusal_html(refusal);
  html += options_html(report.options) + checks_html(report, id) + findings_html(report) +
          warnings_html(report.warnings);
  if (report.training) html += "<h3>Training</h3>\n" + curve_html(*report.training);
  html += ranks_html(report) + schedule_html(report);
  if (report.memory) html += memory_html(*report.memory, id);
  html += ledger_html(report.step ? report.step->ledger : report.ledger, id);
  return html + "<p><a href=\"#top\">to the summary</a></p>\n</section>\n";
}

}  // namespace

std::string rank_grid_html(const sim::Layout& layout, const sim::NodePlacement& nodes) {
  const int drawn = drawn_ranks(layout, nodes);
  std::string html = fmt::format(
      "<p class=\"soft\">t0c1d2p3: coordinates on the axes tp, cp, dp and pp that are larger than 1. Same "
      "colour in "
      "a node: same tp group; {} colours repeat.</p>\n",
      kColours);
  if (drawn < layout.grid_size)
    html +=
        fmt::format("<p>Only the first {} of {} are drawn.</p>\n", counted(drawn, "rank"), layout.grid_size);
  html += "<div class=\"nodes\">\n";
  const sim::GroupKind* tp = layout.find("tp");
  int node = -1;
  for (int rank = layout.first_rank; rank < layout.first_rank + drawn; ++rank) {
    if (nodes.node_of(rank) != node) {
      if (node >= 0) html += "</div></div>\n";
      node = nodes.node_of(rank);
      html += fmt::format("<div class=\"node\">node {}<div class=\"ranks\">", node);
    }
    html += cell(layout, tp, rank);
  }
  return html + "</div></div>\n</div>\n";
}

std::string report_html(const std::vector<ScenarioReport>& reports, std::string_view command) {
  std::string html = summary(reports, command);
  for (std::size_t i = 0; i < reports.size(); ++i) html += scenario_html(reports[i], i + 1);
  return page_html("shardproof: " + markup_text(summary_line(reports)), html);
}

}  // namespace verify
