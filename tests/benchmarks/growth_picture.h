#pragma once

/// The picture of how the figures of the benchmarks grow, drawn from what the benchmark library writes with
/// --benchmark_out. Every chart has one thing that grows, and shows the time of one item of the work, so that
/// what is linear is a level line.
///
/// Shapes  A point is the median of a benchmark that is named growth/CHART/LINE/SIZE and has a counter
///         "each": seconds for one item. Both axes are logarithmic. Other benchmarks of the file are left
///         out.
/// Errors  std::runtime_error: the text is no JSON of benchmarks, a chart is not in the table of
///         growth_picture.cpp, or the file has no point.

#include <string>
#include <string_view>
#include <vector>

namespace benchmarks {

struct GrowthPoint {
  double size;
  double seconds;  // of one item
  bool operator==(const GrowthPoint&) const = default;
};

struct GrowthLine {
  std::string name;  // as it stands beside the line
  std::vector<GrowthPoint> points;
};

struct GrowthChart {
  std::string name;
  std::vector<GrowthLine> lines;
};

/// Returns the charts in the order of their table, with the line "ours" first and the others in the order of
/// the file.
std::vector<GrowthChart> growth_charts(std::string_view json);

/// Returns an SVG with all charts.
std::string growth_picture(const std::vector<GrowthChart>& charts);

}  // namespace benchmarks
