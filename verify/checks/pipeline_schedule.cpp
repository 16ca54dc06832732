#include "verify/checks/pipeline_schedule.h"

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/pipeline/schedule_checks.h"
#include "sim/pipeline/timeline.h"
#include "verify/output/phrases.h"

namespace verify {

std::int64_t steps_of(const sim::PipelineShape& shape) {
  const int passes = shape.forward_only ? 1 : 2;
  return std::int64_t{passes} * shape.ranks() * shape.forward_steps();
}

double PipelineReport::bubble_percent() const {
  constexpr double kPercent = 100;
  return work == 0 ? 0 : kPercent * static_cast<double>(bubble) / static_cast<double>(work);
}

PipelineReport check_pipeline_schedule(const ScheduleRequest& request) {
  PipelineReport report{.row = {"schedule", false, ""}};
  try {
    const sim::PipelineSchedule schedule = make_schedule(request.schedule.function, request.shape);
    check(schedule);
    const sim::Timeline timeline = sim::timeline(schedule, request.cost);
    report.work = timeline.work;
    report.bubble = timeline.bubble();
  } catch (const sim::Error& error) {
    report.row.detail = fmt::format("{}: {}", title_of(request), error.what());
    return report;
  }
  report.row.holds = true;
  report.row.detail =
      fmt::format("{}: the bubble is {:.1f} % of the work ({} of waiting, {} of work)", title_of(request),
                  report.bubble_percent(), counted(report.bubble, "unit"), counted(report.work, "unit"));
  return report;
}

}  // namespace verify
