#include <fmt/format.h>
#include <optional>

#include "sim/pipeline/schedule_checks.h"
#include "verify/options/command_requests.h"
#include "verify/options/schedule_request.h"
#include "verify/output/json.h"
#include "verify/output/output_file.h"
#include "verify/output/phrases.h"
#include "verify/output/report_json.h"
#include "verify/program/commands.h"
#include "verify/views/schedule_svg.h"
#include "verify/views/schedule_text.h"

namespace verify {

namespace {

Json as_json(const sim::PipelineShape& shape, int number, const sim::RankSchedule& rank) {
  Json sequence = Json::array();
  for (const sim::Step& step : steps_of(rank))
    sequence.push_back({step.pass == sim::Pass::forward ? "F" : "B", step.microbatch, step.chunk});
  return {{"rank", number},
          {"total", shape.forward_steps()},
          {"all_in_warmup", rank.all_in_warmup},
          {"warmup", rank.warmup},
          {"remaining", shape.forward_steps() - rank.warmup},
          {"seq", std::move(sequence)},
          {"peak_live", rank.peak_live}};
}

Json as_json(const ScheduleRequest& request, const sim::PipelineSchedule& schedule,
             const sim::Timeline& timeline) {
  Json ranks = Json::array();
  for (int rank = 0; rank < schedule.shape.ranks(); ++rank)
    ranks.push_back(as_json(schedule.shape, rank, schedule.ranks[static_cast<std::size_t>(rank)]));
  return {{"ranks", std::move(ranks)},
          {"schedule", request.schedule.name},
          {"work", timeline.work},
          {"bubble", timeline.bubble()}};
}

std::string as_text(const ScheduleRequest& request, const sim::PipelineSchedule& schedule,
                    const sim::Timeline& timeline, const Output& output) {
  return fmt::format(
             "{}\nF takes {}, B {}: {} of time, of which a rank works {}; the bubble is {} of the work\n\n",
             title_of(request), request.cost.forward, request.cost.backward, counted(timeline.length, "unit"),
             timeline.work, bubble_share(timeline)) +
         schedule_table(schedule) + "\n" + schedule_gantt(schedule, timeline, output.columns, output.colour);
}

}  // namespace

int run_schedule(const Call& call) {
  const ScheduleCommandRequest asked = schedule_request(call.line);
  const ScheduleRequest& request = asked.schedule;
  std::optional<OutputFile> svg;
  if (asked.svg) {
    svg.emplace("svg", *asked.svg);
    for (const std::string& scenario : call.line.scenarios) svg->require_is_no_input(scenario);
  }
  const sim::PipelineSchedule schedule = make_schedule(request.schedule.function, request.shape);
  check(schedule);
  const sim::Timeline timeline = sim::timeline(schedule, request.cost);
  if (svg) svg->write(schedule_svg(schedule, timeline, title_of(request)));
  if (asks_for_json(call.line)) {
    call.output.out << one_line(as_json(request, schedule, timeline));
  } else {
    call.output.out << as_text(request, schedule, timeline, call.output);
  }
  return kVerified;
}

}  // namespace verify
