#pragma once

/// A replay as a JSON object, whose keys verify/program/README.md lists.

#include "verify/output/json.h"
#include "verify/replay/replay.h"

namespace verify {

Json replay_json(const ScenarioReport& report);

}  // namespace verify
