#pragma once

/// The Gantt chart of a pipeline schedule as one self-contained SVG: ranks are rows, time goes to the right,
/// forward and backward have a colour each, chunks a shade each. Readable on light and on dark ground.
///
/// Errors  svg_size: more steps than kMostDrawnSteps.

#include <cstdint>
#include <string>

#include "sim/pipeline/timeline.h"

namespace verify {

inline constexpr std::int64_t kMostDrawnSteps = 65'536;

std::string schedule_svg(const sim::PipelineSchedule& schedule, const sim::Timeline& timeline,
                         const std::string& title);

/// In pixels, where a letter has the size of the text beside it.
std::int64_t schedule_svg_width(const sim::PipelineSchedule& schedule, const sim::Timeline& timeline);

}  // namespace verify
