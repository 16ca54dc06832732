#pragma once

/// A pipeline schedule: its name, its shape, and what a step of it costs.
///
/// Errors  missing_option; bad_choice: a word of --schedule that names no pipeline schedule;
///         microbatches_div: a global batch that microbatches do not divide; those of the layouts and of
///         sim/pipeline/pipeline_shape.h.

#include <cstdint>
#include <optional>
#include <string>

#include "sim/pipeline/schedules.h"
#include "sim/pipeline/timeline.h"
#include "verify/options/model_options.h"

namespace verify {

struct ScheduleRequest {
  sim::NamedSchedule schedule;
  sim::PipelineShape shape;
  sim::StepCost cost;
};

/// What the user said of the pipeline beside its size.
struct PipelineOptions {
  std::optional<std::int64_t> virtual_size;  // chunks that a pipeline rank holds
  std::optional<std::int64_t> group_size;    // microbatches that pass all chunks before the next ones do
  bool forward_only = false;
  bool overlap_moe_expert_parallel_comm = false;
};

PipelineOptions pipeline_options(const Settings& settings);

/// The schedule that a training runs on `ranks` pipeline ranks: one forward, one backward; interleaved where
/// a rank holds chunks.
ScheduleRequest training_schedule(const PipelineOptions& options, std::int64_t ranks,
                                  std::int64_t microbatches);

/// The microbatches of each of `replicas` data-parallel replicas in a step of the global batch.
std::int64_t microbatches_of_batch(const BatchOptions& batch, std::int64_t replicas);

/// What the command schedule is asked to show. With a world size the whole layout is checked, and a global
/// batch size gives the microbatches of each replica.
ScheduleRequest requested_schedule(const Settings& settings);

/// "interleaved: 8 microbatches in groups of 4 on 4 pipeline ranks of 2 chunks".
std::string title_of(const ScheduleRequest& request);

}  // namespace verify
