#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <fmt/format.h>

#include "verify/output/markup.h"
#include "verify/output/refusal_table.h"
#include "verify/views/schedule_view.h"

namespace verify {

namespace {

constexpr int kMargin = 16;
constexpr int kNames = 64;   // width of the column of rank names
constexpr int kTop = 64;     // height above the rows, for title and ruler
constexpr int kRow = 28;     // distance from row to row
constexpr int kBar = 22;     // height of a step
constexpr int kLegend = 84;  // height below the rows
constexpr int kLegendEntry = 140;
constexpr int kLegendEntries = 4;  // entries in a line
constexpr int kLeastWidth = 2 * kMargin + kLegendEntries * kLegendEntry;

constexpr const char* kStyle =
    "<style>\n"
    "  text { font: 11px sans-serif; fill: #1b1f24; }\n"
    "  .title { font-size: 14px; font-weight: bold; }\n"
    "  .step { text-anchor: middle; }\n"
    "  .page { fill: #ffffff; } .lane { fill: #eff1f4; }\n"
    "  .f { fill: #7db7f5; } .b { fill: #8ad19a; }\n"
    "  @media (prefers-color-scheme: dark) {\n"
    "    text { fill: #eef1f5; } .page { fill: #15181d; } .lane { fill: #22272f; }\n"
    "    .f { fill: #2a68ab; } .b { fill: #2c7544; }\n"
    "  }\n"
    "</style>\n";

class Drawing {
 public:
  Drawing(const sim::PipelineSchedule& schedule, const TimeWindow& window)
      : shape_(schedule.shape),
        window_(window),
        // Three digits need about 22 pixels.
        unit_(std::max(22, static_cast<int>(std::to_string(shape_.microbatches()).size()) * 7 + 4)) {}

  std::int64_t width() const {
    return std::max<std::int64_t>(kLeastWidth, 2 * kMargin + kNames + window_.length() * unit_);
  }

  std::string text(const sim::Timeline& timeline, const std::string& title) const {
    const std::int64_t width = this->width();
    const std::int64_t height = kTop + std::int64_t{kRow} * shape_.ranks() + kLegend;
    std::string svg = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" role=\"img\">\n<title>{}</title>\n{}"
        "<rect class=\"page\" width=\"{}\" height=\"{}\"/>\n<text class=\"title\" x=\"{}\" "
        "y=\"26\">{}</text>\n",
        width, height, markup_text(title), kStyle, width, height, kMargin, markup_text(title));
    svg += ruler();
    for (int rank = 0; rank < shape_.ranks(); ++rank) svg += row(timeline, rank);
    return svg + legend(height - kLegend + 12) + "</svg>\n";
  }

 private:
  std::int64_t x_of(std::int64_t time) const { return kMargin + kNames + (time - window_.begin) * unit_; }

  /// Returns the opacity of a chunk: the first one has the full colour, and the last one two fifths of it.
  double shade(int chunk) const { return shape_.chunks() == 1 ? 1 : 1 - 0.6 * chunk / (shape_.chunks() - 1); }

  std::string box(std::int64_t x, std::int64_t y, std::int64_t width, sim::Pass pass, int chunk) const {
    return fmt::format(
        "<rect class=\"{}\" fill-opacity=\"{:.2f}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"2\"/>",
        pass == sim::Pass::forward ? 'f' : 'b', shade(chunk), x, y, width, kBar);
  }

  std::string ruler() const {
    constexpr std::int64_t kMarkEvery = 5;
    std::string marks;
    const std::int64_t first = (window_.begin + kMarkEvery - 1) / kMarkEvery * kMarkEvery;
    for (std::int64_t time = first; time <= window_.end; time += kMarkEvery)
      marks += fmt::format("<text x=\"{}\" y=\"{}\">{}</text>\n", x_of(time), kTop - 8, time);
    return marks;
  }

  std::string row(const sim::Timeline& timeline, int rank) const {
    const std::int64_t y = kTop + std::int64_t{kRow} * rank;
    std::string svg = fmt::format(
        "<text x=\"{}\" y=\"{}\">rank {}</text>\n<rect class=\"lane\" x=\"{}\" y=\"{}\" width=\"{}\" "
        "height=\"{}\"/>\n",
        kMargin, y + 15, rank, x_of(window_.begin), y, window_.length() * unit_, kBar);
    for (const sim::TimedStep& timed : timeline.ranks[static_cast<std::size_t>(rank)]) {
      if (timed.begin < window_.begin || timed.end > window_.end) continue;
      const std::int64_t x = x_of(timed.begin);
      const std::int64_t width = (timed.end - timed.begin) * unit_ - 1;
      svg += fmt::format(
          "<g><title>{}, time {} to {}</title>{}<text class=\"step\" x=\"{}\" y=\"{}\">{}</text></g>\n",
          text_of(timed.step), timed.begin, timed.end, box(x, y, width, timed.step.pass, timed.step.chunk),
          x + width / 2, y + 15, timed.step.microbatch);
    }
    return svg;
  }

  /// Returns the legend, which has a line for each pass and an entry for each of the first chunks.
  std::string legend(std::int64_t top) const {
    std::string svg;
    for (const sim::Pass pass : {sim::Pass::forward, sim::Pass::backward}) {
      if (pass == sim::Pass::backward && shape_.forward_only) continue;
      const std::int64_t y = top + (pass == sim::Pass::forward ? 0 : kRow);
      const std::string name = pass == sim::Pass::forward ? "forward" : "backward";
      for (int chunk = 0; chunk < std::min(shape_.chunks(), kLegendEntries); ++chunk) {
        const std::int64_t x = kMargin + std::int64_t{kLegendEntry} * chunk;
        svg += box(x, y, kBar, pass, chunk) +
               fmt::format("<text x=\"{}\" y=\"{}\">{}{}</text>\n", x + kBar + 6, y + 15, name,
                           shape_.is_interleaved() ? fmt::format(", chunk {}", chunk) : "");
      }
    }
    return svg;
  }

  const sim::PipelineShape& shape_;
  TimeWindow window_;
  int unit_;  // width of a unit of time in pixels
};

}  // namespace

std::string schedule_svg(const sim::PipelineSchedule& schedule, const sim::Timeline& timeline,
                         const TimeWindow& window, const std::string& title) {
  std::int64_t steps = 0;
  for (const auto& rank : timeline.ranks) steps += std::ssize(rank);
  if (steps <= kMostDrawnSteps) return Drawing(schedule, window).text(timeline, title);
  refuse_by("svg_size", "--svg", steps, kMostDrawnSteps);
}

std::int64_t schedule_svg_width(const sim::PipelineSchedule& schedule, const TimeWindow& window) {
  return Drawing(schedule, window).width();
}

}  // namespace verify
