#pragma once

/// The Gantt chart of a pipeline schedule as one self-contained SVG. Ranks are rows, and time goes to the
/// right. Forward and backward have different colours, and chunks have different shades. The chart is
/// readable on a light and on a dark background.
///
/// Errors  svg_size: the schedule has more steps than kMostDrawnSteps.

#include <cstdint>
#include <string>

#include "sim/pipeline/timeline.h"

namespace verify {

inline constexpr std::int64_t kMostDrawnSteps = 65'536;

std::string schedule_svg(const sim::PipelineSchedule& schedule, const sim::Timeline& timeline,
                         const std::string& title);

/// Returns the width in pixels at which the letters of the chart are as large as the text around it.
std::int64_t schedule_svg_width(const sim::PipelineSchedule& schedule, const sim::Timeline& timeline);

}  // namespace verify
