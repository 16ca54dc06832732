#pragma once

/// Checks the pipeline schedule of a training step, and computes its bubble: the time in which a pipeline
/// rank waits.
///
/// Shapes  times are in units: a forward and a backward step of a chunk take one unit each (timeline.h).
///         Schedules of up to kMostCountedSteps steps over all ranks are timed.
/// Source  Narayanan et al. 2021, section 2.2.

#include <cstdint>

#include "verify/checks/check_result.h"
#include "verify/requests/requests.h"

namespace verify {

inline constexpr std::int64_t kMostCountedSteps = 65'536;

/// Returns the number of forward and backward steps of all ranks. The shape must have been checked.
std::int64_t steps_of(const sim::PipelineShape& shape);

struct PipelineReport {
  CheckResult row;                // "schedule"
  std::int64_t work = 0;          // of a rank, in units of time; 0 if the row does not hold
  std::int64_t bubble = 0;        // the time of the training step beyond the work
  double bubble_percent() const;  // of the work
};

/// Checks a schedule of up to kMostCountedSteps steps. The row does not hold if ranks wait for each other
/// forever, or if a message is never received.
PipelineReport check_pipeline_schedule(const ScheduleRequest& request);

}  // namespace verify
