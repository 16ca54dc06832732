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

/// Returns one self-contained SVG. Forward and backward have different colours, and chunks have different
/// shades. The chart is readable on a light and on a dark background.
std::string schedule_svg(const sim::PipelineSchedule& schedule, const sim::Timeline& timeline,
                         const std::string& title);

/// Returns the width in pixels at which the letters of the chart are as large as the text around it.
std::int64_t schedule_svg_width(const sim::PipelineSchedule& schedule, const sim::Timeline& timeline);

}  // namespace verify
