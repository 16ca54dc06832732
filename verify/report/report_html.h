#pragma once

/// The page of a replay: one HTML file that needs nothing else, to be read, mailed or kept beside a build. A
/// summary with links, then of each scenario verdict, checks, ranks by node, pipeline schedule, ledger,
/// memory, losses, warnings, refusal and findings. What a scenario does not have has no heading.
///
/// Exact   the same reports give the same bytes; any text of a scenario is shown as text.

#include <string>
#include <vector>

#include "verify/replay/replay.h"

namespace verify {

std::string report_html(const std::vector<ScenarioReport>& reports);

}  // namespace verify
