#pragma once

/// A replay as text: one row for each check, warning and refusal, then its tables and findings.

#include <string>
#include <vector>

#include "verify/replay/replay.h"

namespace verify {

std::string replay_text(const ScenarioReport& report, bool colour);

/// Returns the last line, with the verdict of all scenarios.
std::string replay_summary_text(const std::vector<ScenarioReport>& reports, bool colour);

}  // namespace verify
