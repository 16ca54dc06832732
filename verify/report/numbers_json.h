#pragma once

/// The numbers of a replay as JSON, for programs that compare runs: memory, losses and the bubble. The name
/// of a number has its unit.

#include "verify/checks/pipeline_schedule.h"
#include "verify/checks/training_curve.h"
#include "verify/memory/model_memory.h"
#include "verify/output/json.h"

namespace verify {

/// Returns a member for each stage: its bytes between steps and at the largest moment, and the parts of the
/// latter. Where activations are not counted, there is no largest moment: null.
Json memory_stages_json(const MemoryReport& memory);
Json memory_json(const MemoryReport& memory);
Json training_json(const TrainingCurve& training);
Json pipeline_json(const PipelineReport& pipeline);

}  // namespace verify
