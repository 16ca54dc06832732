#pragma once

/// The page of a replay: one self-contained HTML file, to be read, mailed or kept beside a build. It has a
/// summary with links, and then for each scenario its verdict, checks, ranks by node, pipeline schedule,
/// ledger, memory, losses, warnings, refusal and findings. A part that a scenario does not have is left out
/// with its heading.
///
/// Exact   the same reports give the same bytes. Texts of a scenario are never read as markup.

#include <string>
#include <vector>

#include "verify/replay/replay.h"

namespace verify {

std::string report_html(const std::vector<ScenarioReport>& reports);

}  // namespace verify
