#include <cstddef>
#include <cstdint>
#include <fmt/format.h>
#include <optional>
#include <utility>

#include "sim/base/refusals.h"
#include "sim/layout/layer_placement.h"
#include "sim/pipeline/schedule_checks.h"
#include "verify/output/json.h"
#include "verify/output/output_file.h"
#include "verify/output/phrases.h"
#include "verify/output/report_json.h"
#include "verify/output/text_table.h"
#include "verify/program/commands.h"
#include "verify/program/report_files.h"
#include "verify/program/run_from.h"
#include "verify/requests/command_requests.h"
#include "verify/requests/requests.h"
#include "verify/requests/scenario_request.h"
#include "verify/sweep/estimated_step.h"
#include "verify/views/schedule_view.h"
#include "verify/vocabulary/option_vocabulary.h"

namespace verify {

namespace {

// ---- layers

Json as_json(const sim::LayerPlacement& placement, const std::string& rules,
             const std::vector<sim::Warning>& warnings) {
  const auto chunk_json = [](const sim::StageLayers& stage) {
    Json chunk = {{"count", stage.count}, {"offset", stage.offset}};
    if (stage.mtp > 0) chunk["mtp"] = stage.mtp;
    return chunk;
  };
  const auto rank_json = [&](const auto& rank) { return json_list(rank, chunk_json); };
  return {{"rules", rules},
          {"mode", placement.mode},
          {"num_layers", placement.num_layers},
          {"encoder_ranks", placement.encoder_ranks},
          {"stages", json_list(placement.stages, rank_json)},
          {"warnings", warnings_json(warnings)}};
}

std::string layers_text(const sim::StageLayers& stage) {
  const std::string predicting = stage.mtp == 0 ? "" : fmt::format("{} of multi-token prediction", stage.mtp);
  if (stage.count == 0) return stage.mtp == 0 ? "none" : predicting;
  const std::string layers = stage.count == 1
                                 ? fmt::format("{}", stage.offset)
                                 : fmt::format("{}..{}", stage.offset, stage.offset + stage.count - 1);
  return layers + (stage.mtp == 0 ? "" : ", and " + predicting);
}

std::string as_text(const sim::LayerPlacement& placement, const std::string& rules) {
  const std::size_t chunks = placement.stages.front().size();
  std::string text = fmt::format(
      "{}{} on {} x {}, mode {}, rules {}\n\n", counted(placement.num_layers, "layer"),
      placement.encoder_ranks > 0 ? " a side" : "", counted(std::ssize(placement.stages), "pipeline rank"),
      counted(static_cast<std::int64_t>(chunks), "chunk"), placement.mode, rules);
  std::vector<std::string> columns = {">pipeline rank", ">layers"};
  if (placement.encoder_ranks > 0) columns.push_back({"side"});
  for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
    columns.push_back({chunks == 1 ? "which" : fmt::format("chunk {}", chunk)});
  }
  TextTable table(std::move(columns));
  for (std::size_t rank = 0; rank < placement.stages.size(); ++rank) {
    int count = 0;
    std::vector<std::string> which;
    for (const sim::StageLayers& stage : placement.stages[rank]) {
      count += stage.count;
      which.push_back(layers_text(stage));
    }
    std::vector<std::string> cells = {fmt::format("{}", rank), fmt::format("{}", count)};
    if (placement.encoder_ranks > 0) {
      cells.emplace_back(static_cast<int>(rank) < placement.encoder_ranks ? "encoder" : "decoder");
    }
    cells.insert(cells.end(), which.begin(), which.end());
    table.add(std::move(cells));
  }
  return text + table.text();
}

// ---- schedule

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
  refusals.keep([&] { svg = output_file(call.line, "svg"); });
  refusals.keep([&] { trace = output_file(call.line, "trace"); });
  refusals.throw_if_any();
  if (svg && trace) svg->require_differs_from(*trace);
  const EstimatedStep step = estimated_step(*request, *machine);
  const ChartTimeline chart = chart_timeline(step);
  const std::string title = fmt::format("Estimate for {}: {}; a unit of time is {}", step.machine.name,
                                        title_of(step.schedule), chart.unit);
  if (svg) svg->write(schedule_svg(step.steps, chart.timeline, {.end = chart.timeline.length}, title));
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

int run_layers(const Call& call) {
  const LayersRequest request = layers_request(call.line);
  if (asks_for_json(call.line)) {
    write_json(call, as_json(request.placement, request.rules, request.warnings));
  } else {
    call.output.out << as_text(request.placement, request.rules) << warnings_text(request.warnings);
  }
  return kVerified;
}

int run_schedule(const Call& call) {
  if (call.line.settings.has("machine")) return run_estimated_schedule(call);
  require_read_by(call.line.settings, Reader::schedule, "schedule' without '--machine");
  if (call.line.settings.has("trace")) refuse_without_effect("trace", "schedule' without '--machine");
  const ScheduleCommandRequest asked = schedule_request(call.line);
  const ScheduleRequest& request = asked.schedule;
  const std::optional<OutputFile> svg = output_file(call.line, "svg");
  const sim::PipelineSchedule schedule = make_schedule(request.schedule.function, request.shape);
  check(schedule);
  const sim::Timeline timeline = sim::timeline(schedule, request.cost);
  if (svg) svg->write(schedule_svg(schedule, timeline, {.end = timeline.length}, title_of(request)));
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
