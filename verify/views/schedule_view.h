#pragma once

/// A pipeline schedule for people: a table of the steps of each rank, and a Gantt chart, in letters or as a
/// drawing. Ranks are rows, and time goes to the right.
///
/// Shapes  F is a forward step and B a backward step, with the number of the microbatch and, if ranks have
///         several chunks, a letter for the chunk. The chart in letters has a column for each unit of time,
///         at most `columns` characters in a line and kMostRows ranks; the text says what was left out.
/// Errors  svg_size: the schedule has more steps than kMostDrawnSteps.

#include <cstdint>
#include <string>

#include "sim/pipeline/timeline.h"

namespace verify {

inline constexpr int kMostRows = 64;

std::string schedule_table(const sim::PipelineSchedule& schedule);
std::string schedule_gantt(const sim::PipelineSchedule& schedule, const sim::Timeline& timeline, int columns,
                           bool colour);

/// Returns the letter of a chunk, "a" for chunk 0, or its number if there are not enough letters.
std::string chunk_name(int chunk);

/// Returns the bubble as a share of the work, as a fraction in lowest terms: "3/8".
std::string bubble_share(const sim::Timeline& timeline);

inline constexpr std::int64_t kMostDrawnSteps = 65'536;

/// A part of a timeline: the steps that lie in it as a whole.
struct TimeWindow {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t length() const { return end - begin; }
};

/// Returns one self-contained SVG of a window. Forward and backward have different colours, and chunks have
/// different shades. The chart is readable on a light and on a dark background.
std::string schedule_svg(const sim::PipelineSchedule& schedule, const sim::Timeline& timeline,
                         const TimeWindow& window, const std::string& title);

/// Returns the width in pixels at which the letters of the chart are as large as the text around it.
std::int64_t schedule_svg_width(const sim::PipelineSchedule& schedule, const TimeWindow& window);

}  // namespace verify
