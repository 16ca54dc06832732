// The picture of growth: what it takes from the benchmarks' JSON, and where it draws it.

#include "tests/benchmarks/growth_picture.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <rapidcheck/gtest.h>
#include <stdexcept>

namespace {

using benchmarks::GrowthChart;
using benchmarks::GrowthPoint;

nlohmann::json entry(const std::string& name, const char* aggregate, double each) {
  return {{"run_name", name}, {"aggregate_name", aggregate}, {"each", each}};
}
std::string file_of(const nlohmann::json& entries) {
  return nlohmann::json{{"context", {}}, {"benchmarks", entries}}.dump();
}

RC_GTEST_PROP(GrowthPicture, HasTheMediansOfItsBenchmarks, ()) {
  const auto times = *rc::gen::nonEmpty(rc::gen::container<std::vector<int>>(rc::gen::inRange(1, 1'000'000)));
  nlohmann::json entries = nlohmann::json::array();
  std::vector<GrowthPoint> expected;
  for (const int time : times) {
    const GrowthPoint point{std::ldexp(1, static_cast<int>(expected.size())), time / 1e9};
    expected.push_back(point);
    const std::string name = fmt::format("growth/cold_world/ours/{:.0f}/real_time", point.size);
    entries.push_back(entry(name, "mean", 1));
    entries.push_back(entry(name, "median", point.seconds));
    entries.push_back(entry("cold_world/1024", "median", 1));
  }
  const std::vector<GrowthChart> charts = benchmarks::growth_charts(file_of(entries));
  RC_ASSERT(charts.size() == 1U);
  RC_ASSERT(charts[0].lines.size() == 1U);
  RC_ASSERT(charts[0].lines[0].name == "ours");
  RC_ASSERT(charts[0].lines[0].points == expected);
}

/// Returns the heights of the points of a line, as the picture has them.
std::vector<double> heights(const std::string& svg) {
  std::vector<double> all;
  const std::string mark = "<rect class=\"sim\"";
  for (std::size_t at = svg.find(mark); at != std::string::npos; at = svg.find(mark, at + 1))
    all.push_back(std::stod(svg.substr(svg.find(" y=\"", at) + 4)));
  return all;
}

TEST(GrowthPicture, DrawsWhatTakesLongerHigher) {
  const std::vector<double> y =
      heights(benchmarks::growth_picture({{"product", {{"ours", {{64, 2}, {128, 2}, {256, 5}}}}}}));
  ASSERT_EQ(y.size(), 3U);
  EXPECT_EQ(y[0], y[1]);
  EXPECT_LT(y[2], y[1]);  // y grows downwards
}

TEST(GrowthPicture, RefusesFilesWithoutCharts) {
  EXPECT_THROW(benchmarks::growth_charts("no JSON"), std::runtime_error);
  EXPECT_THROW(benchmarks::growth_charts(file_of(nlohmann::json::array())), std::runtime_error);
  const nlohmann::json unknown = {entry("growth/weather/ours/2", "median", 1)};
  EXPECT_THROW(benchmarks::growth_charts(file_of(unknown)), std::runtime_error);
}

}  // namespace
