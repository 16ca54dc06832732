#pragma once

/// A scenario's pipeline schedule on the page of a replay: what it takes, and its Gantt chart.
///
/// Shapes  a chart of at most kMostReportedSteps steps over all ranks; of a larger schedule a sentence, and
///         what it takes where kMostCountedSteps allow.
/// Calls   of a request that its schedule does not refuse.

#include <cstdint>
#include <string>

#include "verify/options/schedule_request.h"

namespace verify {

inline constexpr std::int64_t kMostReportedSteps = 1024;
inline constexpr std::int64_t kMostCountedSteps = 65'536;

std::string pipeline_html(const ScheduleRequest& request);

}  // namespace verify
