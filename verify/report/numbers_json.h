#pragma once

/// The numbers of a replay as JSON, for programs that compare runs: memory, losses and the bubble. The name
/// of a number has its unit.

#include "verify/checks/model_memory.h"
#include "verify/checks/pipeline_schedule.h"
#include "verify/checks/training_curve.h"
#include "verify/output/json.h"

namespace verify {

Json memory_json(const MemoryReport& memory);
Json training_json(const TrainingCurve& training);
Json pipeline_json(const PipelineReport& pipeline);

}  // namespace verify
