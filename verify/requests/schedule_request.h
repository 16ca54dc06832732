#pragma once

/// The request for a pipeline schedule: its name, its shape, and the costs of its steps.
///
/// Errors  missing_option: no number of microbatches is given; bad_choice: a word of --schedule that is not
///         the name of a pipeline schedule; microbatches_div: a global batch that is not a multiple of the
///         microbatch size times the replicas; those of layouts and of sim/pipeline/pipeline_shape.h.

#include <cstdint>
#include <optional>
#include <string>

#include "sim/pipeline/schedules.h"
#include "sim/pipeline/timeline.h"
#include "verify/requests/model_options.h"

namespace verify {

struct ScheduleRequest {
  sim::NamedSchedule schedule;
  sim::PipelineShape shape;
  sim::StepCost cost;
};

/// The options about the pipeline, except its size.
struct PipelineOptions {
  std::optional<std::int64_t> virtual_size;  // chunks that a pipeline rank holds
  std::optional<std::int64_t> group_size;    // microbatches that pass all chunks before the next group
  bool forward_only = false;
  bool overlap_moe_expert_parallel_comm = false;
};

PipelineOptions pipeline_options(const Settings& settings);

/// Returns the schedule that a training runs on `ranks` pipeline ranks: 1F1B, and interleaved 1F1B where
/// virtual stages are given.
ScheduleRequest training_schedule(const PipelineOptions& options, std::int64_t ranks,
                                  std::int64_t microbatches);

/// Returns the microbatches of each of `replicas` data-parallel replicas in a step. The global batch size
/// must be given.
std::int64_t microbatches_of_batch(const BatchOptions& batch, std::int64_t replicas);

/// Returns the schedule that the command `schedule` shows. With a world size the whole layout is checked, and
/// the number of microbatches may come from the global batch size.
ScheduleRequest requested_schedule(const Settings& settings);

/// Returns a title such as "interleaved: 8 microbatches in groups of 4 on 4 pipeline ranks of 2 chunks".
std::string title_of(const ScheduleRequest& request);

}  // namespace verify
