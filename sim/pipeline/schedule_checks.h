#pragma once

/// The rules that every schedule must follow. The executor checks a rank's list before it
/// runs it.
///
/// Calls   require_rank looks at the list of one rank only; check(PipelineSchedule) looks at the lists of all
///         ranks, and at how they wait for each other.
/// Errors  schedule_steps: a step that is missing, occurs twice, is not in the shape, or runs backward before
///         its forward; schedule_route: a message to or from a rank that is not the neighbour of the step it
///         names; schedule_order: a step before its input has arrived, a send before its step, or a message
///         that occurs twice or never; schedule_peak: the number of microbatches in flight is not
///         that of the closed form; those of timeline.h.
/// Source  Megatron-LM, core/pipeline_parallel/schedules.py.

#include "sim/pipeline/schedule.h"

namespace sim {

void require_rank(const PipelineShape& shape, int rank, const RankSchedule& schedule);

void check(const PipelineSchedule& schedule);

}  // namespace sim
