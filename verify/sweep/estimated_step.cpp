#include "verify/sweep/estimated_step.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fmt/format.h>

#include "sim/pipeline/schedules.h"
#include "verify/output/refusal_table.h"

namespace verify {

namespace {

constexpr double kNanosecond = 1.0 / 1'000'000'000;

std::int64_t nanoseconds(double seconds) {
  constexpr double kMost = std::int64_t{1} << 53;
  const double count = seconds / kNanosecond;
  if (count <= kMost) return std::llround(count);
  refuse_by("estimate_size", "--machine", seconds);
}

void require_counted(const ScenarioRequest& request) {
  std::string reason = request.model.no_shape;
  if (reason.empty() && !request.model.has_shape) reason = "the shape of the model is not given";
  if (reason.empty() && !request.batch.global_batch_size) reason = "--global-batch-size is not given";
  if (reason.empty() && !request.placement) reason = "no layers are placed";
  if (reason.empty() && request.pipeline.forward_only) reason = "--forward-only has no backward pass";
  if (reason.empty()) reason = why_no_step_work(request);
  if (reason.empty()) return;
  refuse_by("step_not_counted", "--machine", reason);
}

ScheduleRequest schedule_of(const ScenarioRequest& request, std::int64_t microbatches) {
  if (request.schedule) return *request.schedule;
  return {.schedule = {"none", sim::no_pipelining, false},
          .shape = {.pipeline_model_parallel_size = 1, .num_microbatches = microbatches},
          .cost = {}};
}

const WorkSeconds& seconds_of_step(const StepSeconds& times, int rank, const sim::Step& step) {
  const RankSeconds& own = times.ranks[static_cast<std::size_t>(rank)];
  const ChunkSeconds& chunk = own.chunks[static_cast<std::size_t>(step.chunk)];
  return step.pass == sim::Pass::forward ? chunk.forward : chunk.backward;
}

WorkSeconds critical_parts(const sim::Timeline& timeline, const StepSeconds& times) {
  WorkSeconds parts;
  const std::size_t messages = traffic_of_kind("pp");
  for (const sim::CriticalStep& step : timeline.critical) {
    parts.calls[messages] += static_cast<double>(step.messages) * kNanosecond;
    parts.add(step.step ? seconds_of_step(times, step.rank, *step.step)
                        : times.ranks[static_cast<std::size_t>(step.rank)].of_step);
  }
  return parts;
}

}  // namespace

EstimatedStep estimated_step(const ScenarioRequest& request, const Machine& machine) {
  require_counted(request);
  KindTraffic traffic(request.layout, request.nodes);
  const StepSeconds times = step_seconds(request, step_work(request), traffic, machine);
  EstimatedStep step{.machine = machine, .schedule = schedule_of(request, times.microbatches)};
  step.steps = sim::make_schedule(step.schedule.schedule.function, step.schedule.shape);
  const int ranks = step.schedule.shape.ranks();
  const auto of_step = [&](int rank, const sim::Step& pass) {
    return std::max<std::int64_t>(1, nanoseconds(seconds_of_step(times, rank, pass).all()));
  };
  const auto of_message = [&](int from, int to) {
    // A gradient goes back over the link over which its activation came. The last rank's leads to the first.
    const int link = std::abs(from - to) == 1 ? std::min(from, to) : ranks - 1;
    return nanoseconds(times.to_next[static_cast<std::size_t>(link)]);
  };
  const auto at_end = [&](int rank) {
    return nanoseconds(times.ranks[static_cast<std::size_t>(rank)].of_step.all());
  };
  step.timeline = sim::timeline(step.steps, {.step = of_step, .message = of_message, .end = at_end});
  step.critical = critical_parts(step.timeline, times);
  step.seconds = static_cast<double>(step.timeline.length) * kNanosecond;
  const std::int64_t tokens = times.microbatches * request.batch.micro_batch_size * request.layout.dp *
                              request.model.config.seq_length;
  step.tokens_per_gpu_second = static_cast<double>(tokens) / step.seconds / request.layout.grid_size;
  step.bubble_seconds = static_cast<double>(step.timeline.bubble()) * kNanosecond;
  return step;
}

std::string seconds_text(double seconds) {
  if (seconds >= 1) return fmt::format("{:.3g} s", seconds);
  constexpr double kThousand = 1e3;
  return seconds * kThousand >= 1 ? fmt::format("{:.3g} ms", seconds * kThousand)
                                  : fmt::format("{:.3g} us", seconds * kThousand * kThousand);
}

std::string estimate_text(const EstimatedStep& step) {
  constexpr double kPercent = 100;
  std::string text = fmt::format(
      "Estimate for {} ({}):\n  a step takes {}, {:.0f} tokens/s/GPU; {}\n  the bubble is {}, "
      "{:.1f} % "
      "of the busiest rank's compute time\n  its critical path computes for {}",
      step.machine.name, step.machine.source.empty() ? "no source given" : step.machine.source,
      seconds_text(step.seconds), step.tokens_per_gpu_second, words_of_error(step.machine),
      seconds_text(step.bubble_seconds),
      kPercent * static_cast<double>(step.timeline.bubble()) / static_cast<double>(step.timeline.work),
      seconds_text(step.critical.compute));
  std::string exposed;
  for (std::size_t i = 0; i < kTrafficNames.size(); ++i) {
    if (step.critical.calls[i] == 0) continue;
    exposed += fmt::format("{}{} over {}", exposed.empty() ? "" : ", ", seconds_text(step.critical.calls[i]),
                           kTrafficNames[i]);
  }
  return text + (exposed.empty() ? ", and waits for no call\n" : ", and waits for calls: " + exposed + "\n");
}

Json estimate_json(const EstimatedStep& step) {
  Json path = Json::object();
  path["compute"] = step.critical.compute;
  for (std::size_t i = 0; i < kTrafficNames.size(); ++i)
    path[std::string(kTrafficNames[i])] = step.critical.calls[i];
  return {{"machine", step.machine.name},
          {"seconds", step.seconds},
          {"measured_steps", static_cast<std::int64_t>(step.machine.measured_steps)},
          {"measured_error", step.machine.measured_steps > 0 ? Json(step.machine.measured_error) : Json()},
          {"tokens_per_gpu_second", step.tokens_per_gpu_second},
          {"bubble_seconds", step.bubble_seconds},
          {"critical_path_seconds", std::move(path)}};
}

ChartTimeline chart_timeline(const EstimatedStep& step) {
  std::int64_t unit = step.timeline.length;
  for (const auto& rank : step.timeline.ranks)
    for (const sim::TimedStep& timed : rank) unit = std::min(unit, timed.end - timed.begin);
  ChartTimeline chart{{}, seconds_text(static_cast<double>(unit) * kNanosecond)};
  const auto scaled = [&](std::int64_t time) { return (time + unit / 2) / unit; };
  for (const auto& rank : step.timeline.ranks) {
    auto& row = chart.timeline.ranks.emplace_back();
    for (const sim::TimedStep& timed : rank)
      row.push_back({timed.step, scaled(timed.begin), scaled(timed.end)});
  }
  chart.timeline.length = std::max<std::int64_t>(1, scaled(step.timeline.length));
  chart.timeline.work = std::max<std::int64_t>(1, scaled(step.timeline.work));
  return chart;
}

std::string estimate_trace(const EstimatedStep& step) {
  constexpr std::int64_t kMostSteps = 150'000;
  std::int64_t steps = 0;
  for (const auto& rank : step.timeline.ranks) steps += std::ssize(rank);
  if (steps > kMostSteps) refuse_by("trace_size/estimate", "--trace", steps, kMostSteps);
  constexpr double kPerMicrosecond = 1000;
  Json events = Json::array();
  const auto add = [&](const std::string& name, int rank, const sim::TimedStep& timed) {
    events.push_back({{"name", name},
                      {"ph", "X"},
                      {"pid", 0},
                      {"tid", rank},
                      {"ts", static_cast<double>(timed.begin) / kPerMicrosecond},
                      {"dur", static_cast<double>(timed.end - timed.begin) / kPerMicrosecond}});
  };
  for (int rank = 0; rank < step.schedule.shape.ranks(); ++rank) {
    events.push_back({{"name", "thread_name"},
                      {"ph", "M"},
                      {"pid", 0},
                      {"tid", rank},
                      {"args", Json{{"name", fmt::format("pipeline rank {} (estimate)", rank)}}}});
    for (const sim::TimedStep& timed : step.timeline.ranks[static_cast<std::size_t>(rank)])
      add(sim::text_of(timed.step), rank, timed);
    const sim::TimedStep& end = step.timeline.ends[static_cast<std::size_t>(rank)];
    if (end.end > end.begin) add("gradients, parameters and sums", rank, end);
  }
  return one_line(
      Json{{"traceEvents", std::move(events)}, {"otherData", Json{{"estimate", estimate_json(step)}}}});
}

}  // namespace verify
