#pragma once

/// A replay as a JSON object, whose keys verify/program/README.md lists. The name of a number has its unit.

#include "verify/memory/model_memory.h"
#include "verify/output/json.h"
#include "verify/replay/replay.h"

namespace verify {

/// Returns a member for each stage: its bytes between steps and at the largest moment, and the parts of the
/// latter. Where activations are not counted, there is no largest moment: null.
Json memory_stages_json(const MemoryReport& memory);

Json replay_json(const ScenarioReport& report);

}  // namespace verify
