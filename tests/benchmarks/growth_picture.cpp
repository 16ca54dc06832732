#include "tests/benchmarks/growth_picture.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "tests/house/picture.h"

namespace benchmarks {

namespace {

/// What a chart shows.
struct ChartInfo {
  const char* name;   // as in the names of its benchmarks
  const char* title;  // what one item is
  const char* size;   // what grows
};

constexpr ChartInfo kCharts[] = {
    {"all_reduce_ranks", "all_reduce of 1 KiB: time of a call of one rank", "ranks"},
    {"all_reduce_bytes", "all_reduce on 8 ranks: time of 1 KiB of one rank", "bytes of a rank"},
    {"cold_world", "a cold world with one barrier: time of a rank", "ranks"},
    {"small_case", "a small case of a cross-entropy", "ranks"},
    {"zero_step", "a ZeRO-1 step on 8 ranks: time of 1,024 parameters", "bytes of the parameters"},
    {"product", "product of two square matrices, f32: time of 1,000 terms", "rows"},
};

const ChartInfo* info_of(std::string_view name) {
  const auto* found = std::find_if(std::begin(kCharts), std::end(kCharts),
                                   [&](const auto& info) { return name == info.name; });
  return found == std::end(kCharts) ? nullptr : found;
}

std::vector<std::string> parts_of(const std::string& name) {
  std::vector<std::string> parts = {""};
  for (const char c : name) {
    if (c == '/') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

template <typename Named>
Named& named(std::vector<Named>& all, const std::string& name) {
  const auto found = std::find_if(all.begin(), all.end(), [&](const Named& one) { return one.name == name; });
  if (found != all.end()) return *found;
  all.push_back({name, {}});
  return all.back();
}

constexpr double kChartWidth = 500, kChartHeight = 250, kPlotWidth = 330, kPlotHeight = 160, kLeft = 66,
                 kTop = 52;

/// An axis from one power of ten, or of two, to another.
struct Axis {
  double least, most;
  /// Returns the share of the axis, from 0 to 1, that lies below a value.
  double share(double value) const {
    return most > least ? std::log(value / least) / std::log(most / least) : 0.5;
  }
};

Axis axis_of(const GrowthChart& chart, double GrowthPoint::*value, double base) {
  double least = INFINITY, most = 0;
  for (const GrowthLine& line : chart.lines) {
    for (const GrowthPoint& point : line.points) {
      least = std::min(least, point.*value);
      most = std::max(most, point.*value);
    }
  }
  constexpr double kAlmost = 1.0 / (1 << 20);  // a power of the base is its own end of the axis
  return {std::pow(base, std::floor(std::log(least) / std::log(base) + kAlmost)),
          std::pow(base, std::ceil(std::log(most) / std::log(base) - kAlmost))};
}

std::string time_text(double seconds) {
  constexpr double kThousand = 1000, kAlmostOne = 0.9995;  // what is printed as 1 of a unit
  for (const char* unit : {"s", "ms", "us"}) {
    if (seconds >= kAlmostOne) return fmt::format("{:.3g} {}", seconds, unit);
    seconds *= kThousand;
  }
  return fmt::format("{:.3g} ns", seconds);
}

std::string size_text(double size) {
  constexpr double kKibi = 1024;
  if (size >= kKibi * kKibi) return fmt::format("{:g} Mi", size / kKibi / kKibi);
  return size >= kKibi ? fmt::format("{:g} Ki", size / kKibi) : fmt::format("{:g}", size);
}

class ChartDrawing {
 public:
  ChartDrawing(const GrowthChart& chart, double x, double y)
      : chart_(chart),
        left_(x + kLeft),
        bottom_(y + kTop + kPlotHeight),
        sizes_(axis_of(chart, &GrowthPoint::size, 2)),
        times_(axis_of(chart, &GrowthPoint::seconds, 10)) {}

  std::string drawn() const {
    const ChartInfo& info = *info_of(chart_.name);
    std::string svg = test::picture_text(left_, bottom_ - kPlotHeight - 20, "name", info.title);
    for (double time = times_.least; time <= times_.most * 1.001; time *= 10) {
      svg += fmt::format("<path d=\"M{:.1f} {:.1f}h{}\"/>\n", left_, y_of(time), kPlotWidth);
      svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"soft\" text-anchor=\"end\">{}</text>\n",
                         left_ - 6, y_of(time) + 4, time_text(time));
    }
    for (const double size : {sizes_.least, std::sqrt(sizes_.least * sizes_.most), sizes_.most}) {
      const double whole = std::pow(2, std::round(std::log2(size)));
      svg += test::picture_text(x_of(whole), bottom_ + 16, "soft centred", size_text(whole));
    }
    svg += test::picture_text(left_ + kPlotWidth / 2, bottom_ + 32, "soft centred", info.size);
    for (std::size_t i = 0; i < chart_.lines.size(); ++i) svg += line(chart_.lines[i], i == 0);
    return svg;
  }

 private:
  double x_of(double size) const { return left_ + kPlotWidth * sizes_.share(size); }
  double y_of(double seconds) const { return bottom_ - kPlotHeight * times_.share(seconds); }

  /// Returns the height of the name beside a line. Names of two lines that end at almost the same height
  /// stand above each other.
  double y_of_name(const GrowthLine& line) const {
    constexpr double kRow = 12;
    const double y = y_of(line.points.back().seconds) + 4;
    const double first = y_of(chart_.lines.front().points.back().seconds) + 4;
    if (&line == &chart_.lines.front() || std::fabs(y - first) >= kRow) return y;
    return y < first ? first - kRow : first + kRow;
  }

  /// The first line of a chart is thick: it is the project's own.
  std::string line(const GrowthLine& line, bool is_own) const {
    std::string path, points;
    for (const GrowthPoint& point : line.points) {
      const double x = x_of(point.size), y = y_of(point.seconds);
      path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? 'M' : 'L', x, y);
      points += fmt::format("<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"5\" height=\"5\"/>\n",
                            is_own ? "sim" : "gpu", x - 2.5, y - 2.5);
    }
    const GrowthPoint& last = line.points.back();
    return fmt::format("<path class=\"{}\" d=\"{}\"/>\n{}", is_own ? "some" : "", path, points) +
           test::picture_text(x_of(last.size) + 8, y_of_name(line), "soft",
                              fmt::format("{}, {}", line.name, time_text(last.seconds)));
  }

  const GrowthChart& chart_;
  double left_, bottom_;
  Axis sizes_, times_;
};

}  // namespace

std::vector<GrowthChart> growth_charts(std::string_view json) {
  const auto file = nlohmann::json::parse(json, nullptr, false);
  if (!file.is_object() || !file.contains("benchmarks"))
    throw std::runtime_error("the file is not what --benchmark_out writes as JSON");
  std::vector<GrowthChart> charts;
  for (const auto& entry : file["benchmarks"]) {
    if (entry.value("aggregate_name", "") != "median" || !entry.contains("each")) continue;
    const std::vector<std::string> parts = parts_of(entry.value("run_name", ""));
    if (parts.size() < 4 || parts[0] != "growth") continue;
    if (info_of(parts[1]) == nullptr)
      throw std::runtime_error(fmt::format("'{}' is in no row of the table of charts", parts[1]));
    GrowthLine& line = named(named(charts, parts[1]).lines, parts[2]);
    line.points.push_back({std::stod(parts[3]), entry["each"].get<double>()});
  }
  if (charts.empty()) throw std::runtime_error("the file has no median of a benchmark named growth/...");
  for (GrowthChart& chart : charts) {
    std::stable_partition(chart.lines.begin(), chart.lines.end(),
                          [](const GrowthLine& line) { return line.name == "ours"; });
  }
  const auto place = [](const GrowthChart& chart) { return info_of(chart.name); };
  std::stable_sort(charts.begin(), charts.end(),
                   [&](const GrowthChart& a, const GrowthChart& b) { return place(a) < place(b); });
  return charts;
}

std::string growth_picture(const std::vector<GrowthChart>& charts) {
  std::string drawn;
  for (std::size_t i = 0; i < charts.size(); ++i) {
    const double x = 10 + static_cast<double>(i % 2) * kChartWidth;
    const double y = static_cast<double>(i / 2) * kChartHeight;
    drawn += ChartDrawing(charts[i], x, y).drawn();
  }
  const double rows = static_cast<double>((charts.size() + 1) / 2);
  return test::picture(rows * kChartHeight + 10, "How the figures of the benchmarks grow", drawn);
}

}  // namespace benchmarks
