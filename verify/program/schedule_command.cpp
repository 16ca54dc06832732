#include <fmt/format.h>
#include <optional>

#include "sim/base/refusals.h"
#include "sim/pipeline/schedule_checks.h"
#include "verify/output/json.h"
#include "verify/output/output_file.h"
#include "verify/output/phrases.h"
#include "verify/output/report_json.h"
#include "verify/program/commands.h"
#include "verify/program/run_from.h"
#include "verify/requests/command_requests.h"
#include "verify/requests/scenario_request.h"
#include "verify/requests/schedule_request.h"
#include "verify/sweep/estimated_step.h"
#include "verify/views/schedule_svg.h"
#include "verify/views/schedule_text.h"
#include "verify/vocabulary/option_vocabulary.h"

namespace verify {

namespace {

Json as_json(const sim::PipelineShape& shape, int number, const sim::RankSchedule& rank) {
  const auto step_json = [](const sim::Step& step) {
    return Json{step.pass == sim::Pass::forward ? "F" : "B", step.microbatch, step.chunk};
  };
  return {{"rank", number},
          {"total", shape.forward_steps()},
          {"all_in_warmup", rank.all_in_warmup},
          {"warmup", rank.warmup},
          {"remaining", shape.forward_steps() - rank.warmup},
          {"seq", json_list(steps_of(rank), step_json)},
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

/// Opens the file of an option, if it is given, and refuses one that the command reads.
std::optional<OutputFile> file_of(const CommandLine& line, const char* option) {
  if (!line.settings.has(option)) return std::nullopt;
  OutputFile file(option, line.settings.text(option, ""));
  for (const std::string& scenario : line.scenarios) file.require_is_no_input(scenario);
  return file;
}

/// Refuses options that give a schedule or its costs, which a machine and the scenario's training give.
void require_no_costs(const Settings& settings) {
  for (const char* option : {"schedule", "forward-cost", "backward-cost"})
    if (settings.has(option)) refuse_without_effect(option, "schedule' with '--machine");
}

/// Shows the schedule of a training step, in which steps take the time that is estimated for a machine.
int run_estimated_schedule(const Call& call) {
  const Scenario scenario = requested_scenario(call.line);
  std::optional<ScenarioRequest> request;
  std::optional<Machine> machine;
  std::optional<OutputFile> svg, trace;
  sim::Refusals refusals;
  refusals.keep([&] { require_no_costs(call.line.settings); });
  refusals.keep([&] { request = scenario_request(scenario, Asked::sizes); });
  refusals.keep([&] { machine = requested_machine(scenario.settings); });
  refusals.keep([&] { svg = file_of(call.line, "svg"); });
  refusals.keep([&] { trace = file_of(call.line, "trace"); });
  refusals.throw_if_any();
  if (svg && trace) svg->require_differs_from(*trace);
  const EstimatedStep step = estimated_step(*request, *machine);
  const ChartTimeline chart = chart_timeline(step);
  const std::string title = fmt::format("Estimate for {}: {}; a unit of time is {}", step.machine.name,
                                        title_of(step.schedule), chart.unit);
  if (svg) svg->write(schedule_svg(step.steps, chart.timeline, title));
  if (trace) trace->write(estimate_trace(step));
  if (asks_for_json(call.line)) {
    Json document = as_json(step.schedule, step.steps, step.timeline);
    document["estimate"] = estimate_json(step);
    write_json(call, std::move(document));
  } else {
    call.output.out << estimate_text(step) << "\n"
                    << title << "\n\n"
                    << schedule_gantt(step.steps, chart.timeline, call.output.columns, call.output.colour);
  }
  return kVerified;
}

}  // namespace

int run_schedule(const Call& call) {
  if (call.line.settings.has("machine")) return run_estimated_schedule(call);
  if (call.line.settings.has("trace")) refuse_without_effect("trace", "schedule' without '--machine");
  const ScheduleCommandRequest asked = schedule_request(call.line);
  const ScheduleRequest& request = asked.schedule;
  const std::optional<OutputFile> svg = file_of(call.line, "svg");
  const sim::PipelineSchedule schedule = make_schedule(request.schedule.function, request.shape);
  check(schedule);
  const sim::Timeline timeline = sim::timeline(schedule, request.cost);
  if (svg) svg->write(schedule_svg(schedule, timeline, title_of(request)));
  if (asks_for_json(call.line)) {
    Json document = as_json(request, schedule, timeline);
    document["warnings"] = warnings_json(asked.warnings);
    write_json(call, std::move(document));
  } else {
    call.output.out << as_text(request, schedule, timeline, call.output) << warnings_text(asked.warnings);
  }
  return kVerified;
}

}  // namespace verify
