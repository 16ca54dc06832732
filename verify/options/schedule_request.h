#pragma once

/// From settings to a pipeline schedule: pipeline and virtual pipeline size, microbatches and their groups,
/// the schedule's name. With a world size the whole layout is checked; with it a global batch size gives the
/// microbatches of each replica.
///
/// Errors  missing_option; bad_choice: a word of --schedule that names no pipeline schedule;
///         microbatches_div: a global batch that microbatches do not divide; those of the layouts and of
///         sim/pipeline/pipeline_shape.h.

#include <string>

#include "sim/pipeline/schedules.h"
#include "sim/pipeline/timeline.h"
#include "verify/options/settings.h"

namespace verify {

struct ScheduleRequest {
  sim::NamedSchedule schedule;
  sim::PipelineShape shape;
  sim::StepCost cost;
};

ScheduleRequest requested_schedule(const Settings& settings);

/// "interleaved: 8 microbatches in groups of 4 on 4 pipeline ranks of 2 chunks".
std::string title_of(const ScheduleRequest& request);

}  // namespace verify
