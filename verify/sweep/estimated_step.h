#pragma once

/// A training step on a machine, as an estimate: its pipeline schedule, in which steps take the time of their
/// counted multiply-adds and bytes (step_time.h) in place of one unit each.
///
/// Shapes  the timeline counts nanoseconds. Behind the last action of a pipeline rank comes what it does
///         once in a step: sums of gradients, the gathering of parameters, and sums over the model.
/// Errors  step_not_counted: a scenario without a model or a global batch, or of which the work of a step is
///         not known in closed form (step_work.h); estimate_size: more than 2^53 nanoseconds.
/// Exact   `critical` are the parts of the critical path, which add up to the time of the step: what
///         computes, and what each kind of communication adds to it, which is exposed. Messages between
///         stages that a rank waits for are pp. The bubble is what is left of the step for the rank that
///         works most.

#include <string>

#include "sim/pipeline/timeline.h"
#include "verify/output/json.h"
#include "verify/requests/scenario_request.h"
#include "verify/sweep/step_time.h"

namespace verify {

struct EstimatedStep {
  Machine machine;
  ScheduleRequest schedule;
  sim::PipelineSchedule steps;
  sim::Timeline timeline;
  WorkSeconds critical;
  double seconds = 0;
  double bubble_seconds = 0;
  double tokens_per_gpu_second = 0;
};

EstimatedStep estimated_step(const ScenarioRequest& request, const Machine& machine);

/// Returns a time in words: "1.25 s", "3.21 ms".
std::string seconds_text(double seconds);

/// Returns the estimate in words, as lines: the time, the bubble, and the parts of the critical path.
std::string estimate_text(const EstimatedStep& step);
Json estimate_json(const EstimatedStep& step);

/// Returns the timeline in units of its shortest step, for charts, and that unit in words: "3.21 ms".
struct ChartTimeline {
  sim::Timeline timeline;
  std::string unit;
};
ChartTimeline chart_timeline(const EstimatedStep& step);

/// Returns the step in the Chrome trace event format: a thread for each pipeline rank.
/// Errors  trace_size: more than 150,000 steps.
std::string estimate_trace(const EstimatedStep& step);

}  // namespace verify
