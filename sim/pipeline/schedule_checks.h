#pragma once

/// What any schedule must hold, whoever wrote it. The executor asks for it before it runs one.
///
/// Calls   check_rank looks at one rank's list alone; check(PipelineSchedule) at all of them, and at how they
///         wait for each other.
/// Errors  schedule_steps: a step that is missing, twice, not of the shape, or backward before its forward;
///         schedule_route: a message to or from a rank that is not the neighbour of the step it names;
///         schedule_order: a step before its input has arrived, a send before its step, a message too often
///         or not at all; schedule_peak: another number of live microbatches than the closed form says; those
///         of timeline.h.
/// Source  Megatron-LM, core/pipeline_parallel/schedules.py.

#include "sim/pipeline/schedule.h"

namespace sim {

void check_rank(const PipelineShape& shape, int rank, const RankSchedule& schedule);

void check(const PipelineSchedule& schedule);

}  // namespace sim
