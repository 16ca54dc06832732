#include "verify/report/pipeline_html.h"

#include <fmt/format.h>

#include "sim/pipeline/schedule_checks.h"
#include "verify/output/phrases.h"
#include "verify/views/schedule_svg.h"
#include "verify/views/schedule_text.h"

namespace verify {

namespace {

std::string too_many(std::int64_t steps) {
  return fmt::format(
      "<p>Not drawn: {} steps over all ranks, and at most {} are drawn. <code>./shardproof schedule</code> "
      "with fewer microbatches shows how they repeat.</p>\n",
      steps, kMostReportedSteps);
}

std::string drawn(const ScheduleRequest& request, std::int64_t steps) {
  const sim::PipelineSchedule schedule = make_schedule(request.schedule.function, request.shape);
  check(schedule);
  const sim::Timeline timeline = sim::timeline(schedule, request.cost);
  std::string html = fmt::format(
      "<p>F takes {}, B {}: {} of time, of which a rank works {}; the bubble is {} of the work.</p>\n",
      request.cost.forward, request.cost.backward, counted(timeline.length, "unit"), timeline.work,
      bubble_share(timeline));
  if (steps > kMostReportedSteps) return html + too_many(steps);
  return html +
         fmt::format("<div class=\"scroll\"><div class=\"gantt\" style=\"width: {}px\">\n{}</div></div>\n",
                     schedule_svg_width(schedule, timeline),
                     schedule_svg(schedule, timeline, title_of(request)));
}

}  // namespace

std::string pipeline_html(const ScheduleRequest& request) {
  const std::int64_t steps = steps_of(request.shape);
  // A schedule that is drawn has its title in the chart.
  const std::string title = steps > kMostReportedSteps ? fmt::format("<p>{}</p>\n", title_of(request)) : "";
  return title + (steps <= kMostCountedSteps ? drawn(request, steps) : too_many(steps));
}

}  // namespace verify
