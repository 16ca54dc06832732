#include "verify/report/curve_html.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <fmt/format.h>

#include "verify/output/markup.h"
#include "verify/output/phrases.h"

namespace verify {

namespace {

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

}  // namespace

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

}  // namespace verify
