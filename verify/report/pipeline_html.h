#pragma once

/// A scenario's pipeline schedule on the page of a replay: the time that it takes, and its Gantt chart.
///
/// Shapes  a schedule of up to kMostReportedSteps steps over all ranks is drawn. A larger one has a sentence
///         instead of the chart; its time is stated up to kMostCountedSteps steps.
/// Calls   the request must be one that its schedule does not refuse.

#include <cstdint>
#include <string>

#include "verify/checks/pipeline_schedule.h"
#include "verify/requests/schedule_request.h"

namespace verify {

inline constexpr std::int64_t kMostReportedSteps = 1024;

std::string pipeline_html(const ScheduleRequest& request);

}  // namespace verify
