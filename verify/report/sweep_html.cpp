#include "verify/report/sweep_html.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <optional>

#include "verify/output/markup.h"
#include "verify/output/phrases.h"
#include "verify/report/html_table.h"

namespace verify {

namespace {

constexpr double kPlotLeft = 110, kPlotRight = 1160, kPlotTop = 20, kPlotBottom = 440;

/// A layout in the picture.
struct Dot {
  const SweptLayout* layout;
  double across, up;  // the estimated seconds or the bytes across nodes, and the bytes of memory
};

std::vector<Dot> dots_of(const SweepReport& report) {
  std::vector<Dot> dots;
  for (const SweptLayout& layout : report.layouts) {
    const bool is_known =
        layout.peak_bytes && (report.machine ? layout.seconds.has_value() : layout.bytes_across.has_value());
    if (!is_known || (dots.size() >= kMostDots && !layout.is_own)) continue;
    dots.push_back({&layout, report.machine ? *layout.seconds : static_cast<double>(*layout.bytes_across),
                    static_cast<double>(*layout.peak_bytes)});
  }
  return dots;
}

constexpr double kSmallest = 1.0 / 1'000'000'000;

/// A logarithmic axis. Numbers below the smallest one stand at its beginning.
struct LogAxis {
  double least = 0, most = 0;  // logarithms
  double begin = 0, end = 0;   // in the picture
  double place(double number) const {
    const double share =
        most > least ? (std::log10(std::max(number, kSmallest)) - least) / (most - least) : 0.5;
    return begin + share * (end - begin);
  }
};

template <typename Number>
LogAxis axis_of(const std::vector<Dot>& dots, const Number& number, double begin, double end) {
  LogAxis axis{.begin = begin, .end = end};
  for (std::size_t i = 0; i < dots.size(); ++i) {
    const double log = std::log10(std::max(number(dots[i]), kSmallest));
    axis.least = i == 0 ? log : std::min(axis.least, log);
    axis.most = i == 0 ? log : std::max(axis.most, log);
  }
  return axis;
}

std::string sizes_text(const SweptLayout& layout) {
  const SweepPoint& point = layout.point;
  return fmt::format("tp {}, pp {}, chunks {}, cp {}, ep {}, dp {}, micro batch {}, recompute {}", point.tp,
                     point.pp, point.chunks, point.cp, point.ep, layout.dp, point.micro_batch_size,
                     kRecomputations[point.recompute]);
}

std::string across_text(const SweepReport& report, double number) {
  return report.machine ? fmt::format("{:.3g} s", number) : byte_text(static_cast<std::int64_t>(number));
}

/// Returns the label of the scenario's own layout, on the side with room; "" for others.
std::string own_label(const Dot& dot, const LogAxis& x, const LogAxis& y) {
  if (!dot.layout->is_own) return "";
  const double place = x.place(dot.across);
  const bool is_left = place > (kPlotLeft + kPlotRight) / 2;
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">your layout</text>\n",
                     place + (is_left ? -11 : 11), y.place(dot.up) + 4, is_left ? "end" : "start");
}

std::string dot_svg(const SweepReport& report, const Dot& dot, const LogAxis& x, const LogAxis& y) {
  const char* colour = dot.layout->fits.value_or(true) ? "part0" : "part1";
  return fmt::format(
             "<circle class=\"{}{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\"><title>{}: {}, {}{}</title>"
             "</circle>\n",
             colour, dot.layout->is_own ? " own" : "", x.place(dot.across), y.place(dot.up),
             dot.layout->is_own ? 7 : 4, sizes_text(*dot.layout), byte_text(*dot.layout->peak_bytes),
             across_text(report, dot.across), report.machine ? " (an estimate)" : "") +
         own_label(dot, x, y);
}

/// Returns up to kMostTicks round numbers of an axis: powers of 2 of bytes, else 1, 2 and 5 times powers of
/// 10. An axis without two of them has its ends and its middle.
std::vector<double> ticks_of(const LogAxis& axis, bool is_of_bytes) {
  constexpr std::size_t kMostTicks = 8;
  const double least = std::pow(10, axis.least), most = std::pow(10, axis.most);
  std::vector<double> ticks;
  if (is_of_bytes) {
    for (int k = std::max(0, std::ilogb(least)); std::ldexp(1.0, k) <= most; ++k)
      if (std::ldexp(1.0, k) >= least) ticks.push_back(std::ldexp(1.0, k));
  } else {
    for (int k = static_cast<int>(std::floor(axis.least)); k <= axis.most; ++k)
      for (const double digit : {1, 2, 5})
        if (const double tick = digit * std::pow(10, k); tick >= least && tick <= most) ticks.push_back(tick);
  }
  if (ticks.size() < 2) return {least, std::sqrt(least * most), most};
  const std::size_t every = (ticks.size() + kMostTicks - 1) / kMostTicks;
  std::vector<double> kept;
  for (std::size_t i = 0; i < ticks.size(); i += every) kept.push_back(ticks[i]);
  return kept;
}

/// Returns the line of the GPU's memory.
std::string limit_svg(const SweepReport& report, const LogAxis& y) {
  if (!report.gpu_memory) return "";
  const double place = y.place(static_cast<double>(*report.gpu_memory));
  return fmt::format(
      "<line class=\"limit\" x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/><text x=\"{}\" y=\"{:.1f}\" "
      "text-anchor=\"end\">the GPU has {}</text>\n",
      kPlotLeft, kPlotRight, place, place, kPlotRight, place - 5, byte_text(*report.gpu_memory));
}

std::string axis_titles(const SweepReport& report, const LogAxis& x, const LogAxis& y) {
  std::string svg;
  for (const double memory : ticks_of(y, true)) {
    svg += fmt::format(
        "<line class=\"axis\" x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/><text x=\"{}\" y=\"{:.1f}\" "
        "text-anchor=\"end\">{}</text>\n",
        kPlotLeft, kPlotRight, y.place(memory), y.place(memory), kPlotLeft - 8, y.place(memory) + 4,
        byte_text(static_cast<std::int64_t>(std::llround(memory))));
  }
  for (const double across : ticks_of(x, !report.machine)) {
    svg += fmt::format(
        "<line class=\"axis\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\"/><text x=\"{0:.1f}\" "
        "y=\"{3}\" "
        "text-anchor=\"middle\">{4}</text>\n",
        x.place(across), kPlotTop, kPlotBottom, kPlotBottom + 22, across_text(report, across));
  }
  return svg + limit_svg(report, y) +
         fmt::format("<text x=\"{}\" y=\"{}\">{}</text>\n", kPlotLeft, kPlotBottom + 46,
                     report.machine ? "seconds of a step, an estimate" : "bytes across nodes in a step");
}

std::string picture(const SweepReport& report) {
  const std::vector<Dot> dots = dots_of(report);
  if (dots.empty()) return "<p>No layout has both numbers of the picture.</p>\n";
  const LogAxis x = axis_of(
      dots, [](const Dot& dot) { return dot.across; }, kPlotLeft, kPlotRight);
  LogAxis y = axis_of(
      dots, [](const Dot& dot) { return dot.up; }, kPlotBottom, kPlotTop);
  if (report.gpu_memory) {  // its line is in the picture
    y.least = std::min(y.least, std::log10(static_cast<double>(*report.gpu_memory)));
    y.most = std::max(y.most, std::log10(static_cast<double>(*report.gpu_memory)));
  }
  std::string svg =
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"curve whole\" viewBox=\"0 0 1200 500\" "
      "role=\"img\">\n<title>what "
      "a rank holds against " +
      std::string(report.machine ? "the estimated time of a step"
                                 : "the bytes that a step sends across nodes") +
      "</title>\n" + axis_titles(report, x, y);
  for (const Dot& dot : dots) svg += dot_svg(report, dot, x, y);
  return svg + "</svg>\n<p><span class=\"key part0\"></span>" +
         (report.gpu_memory ? "fits<span class=\"key part1\"></span>does not fit" : "a layout") +
         "; large dot: your layout; y axis: peak memory per rank (log).</p>\n";
}

HtmlCell fits_cell(const SweptLayout& layout) {
  return {.html = fit_word(layout), .key = -static_cast<int>(fit_of(layout))};
}

std::string layouts_html(const SweepReport& report) {
  std::vector<HtmlColumn> columns = {{.title = "layout", .sorts = Sorts::as_added},
                                     number_column("between steps"),
                                     number_column("largest"),
                                     {.title = "fits", .sorts = Sorts::largest_first},
                                     number_column("inside nodes"),
                                     number_column("across nodes"),
                                     number_column("bubble")};
  if (report.machine) columns.push_back(number_column("estimate"));
  HtmlTable table("sweep", columns);
  const std::size_t rows = std::min(report.layouts.size(), kMostSweptRows);
  const auto bytes_cell = [](const std::optional<std::int64_t>& bytes) {
    return bytes ? byte_cell(*bytes) : HtmlCell{.html = "-", .key = -1};
  };
  constexpr double kNanoseconds = 1e9, kPercent = 100;
  const auto own = report.place_of_own();
  for (std::size_t i = 0; i < report.layouts.size(); ++i) {
    if (i >= rows && i != own) continue;
    const SweptLayout& layout = report.layouts[i];
    std::vector<HtmlCell> cells = {
        {.html = sizes_text(layout) + (layout.is_own ? " <span class=\"care\">own</span>" : "")},
        byte_cell(layout.static_bytes),
        bytes_cell(layout.peak_bytes),
        fits_cell(layout),
        bytes_cell(layout.bytes_inside),
        bytes_cell(layout.bytes_across),
        {.html = fmt::format("{:.1f} %", kPercent * layout.bubble),
         .key = std::llround(kNanoseconds * layout.bubble)}};
    if (report.machine) {
      cells.push_back(layout.seconds ? HtmlCell{.html = fmt::format("{:.3g} s", *layout.seconds),
                                                .key = std::llround(kNanoseconds * *layout.seconds)}
                                     : HtmlCell{.html = "-", .key = -1});
    }
    table.add(std::move(cells));
  }
  std::string html = "<h3>Layouts</h3>\n";
  if (rows < report.layouts.size())
    html += fmt::format("<p>The first {} of {} layouts.</p>\n", rows, report.layouts.size());
  return html + table.html();
}

std::string refused_html(const SweepReport& report) {
  if (report.refusals.empty()) return "";
  HtmlTable table("refused", {number_column("layouts"),
                              {.title = "rule", .sorts = Sorts::as_added},
                              {.title = "it says"},
                              {.title = "for example"}});
  for (const SweepRefusal& rule : report.refusals) {
    table.add({number_cell(rule.layouts),
               {.html = markup_text(rule.code + " " + rule.option)},
               {.html = markup_text(rule.rule), .classes = "wide"},
               {.html = markup_text(rule.example), .classes = "wide"}});
  }
  return "<h3>Refused</h3>\n<p>One layout may break several rules.</p>\n" +
         folded(table.html(), std::ssize(report.refusals), counted(std::ssize(report.refusals), "rule"));
}

}  // namespace

std::string sweep_title(const SweepReport& report) {
  std::string title =
      fmt::format("{} of {} layouts of {} with a global batch of {} are accepted", report.layouts.size(),
                  report.tried, counted(report.world_size, "rank"), report.global_batch_size);
  if (report.gpu_memory)
    title += fmt::format(", and {} fit into {}", report.fitting(), byte_text(*report.gpu_memory));
  title += ".";
  const auto is_doubted = [](const SweptLayout& layout) { return !layout.doubt.empty(); };
  const auto first = std::ranges::find_if(report.layouts, is_doubted);
  if (first == report.layouts.end()) return title;
  return title + fmt::format(" Whether {} more fit is not known, because {} is not modelled exactly.",
                             std::ranges::count_if(report.layouts, is_doubted), first->doubt);
}

std::string sweep_order(const SweepReport& report) {
  std::string order =
      fmt::format("Best first: {}{}. Bytes are those of all ranks in one step.",
                  report.gpu_memory ? "those that fit, then those that fit only just, and " : "",
                  report.machine ? "by the estimated time"
                                 : "by the bytes sent across nodes, where they are counted, then what "
                                   "computes least again, then by the bubble");
  if (report.machine) {
    order += fmt::format(" Times are estimates from the rates of {} ({}): {}.", report.machine->name,
                         report.machine->source.empty() ? "no source given" : report.machine->source,
                         words_of_error(*report.machine));
  }
  return order;
}

std::string sweep_html(const SweepReport& report) {
  return page_html("shardproof: sweep", "<h1>shardproof memory: a sweep over layouts</h1>\n<p>" +
                                            markup_text(sweep_title(report)) + "</p>\n<p>" +
                                            markup_text(sweep_order(report)) + "</p>\n" + picture(report) +
                                            layouts_html(report) + refused_html(report));
}

}  // namespace verify
