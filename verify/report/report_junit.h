#pragma once

/// The JUnit XML of a replay for build servers. Each scenario is a testsuite, and each check is a testcase. A
/// check that does not hold is a failure. A refusal is an error, and so are the findings of a scenario that
/// expects none. A testcase has the seconds that its check took, where the report has them
/// (ScenarioReport::seconds); a check that takes no time worth a measurement has 0.
///
/// Exact   the same reports give the same bytes; reports of two runs differ in their seconds. The XML is
///         well-formed for any text of a scenario.
/// Source  the JUnit schema as Jenkins and GitLab read it.

#include <string>
#include <vector>

#include "verify/replay/replay.h"

namespace verify {

std::string report_junit(const std::vector<ScenarioReport>& reports);

}  // namespace verify
