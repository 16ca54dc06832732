#pragma once

/// The JUnit XML of a replay for build servers. Each scenario is a testsuite, and each check is a testcase. A
/// check that does not hold is a failure. A refusal is an error, and so are the findings of a scenario that
/// expects none. The file has no times, because they would differ from run to run.
///
/// Exact   the same reports give the same bytes. The XML is well-formed for any text of a scenario.
/// Source  the JUnit schema as Jenkins and GitLab read it.

#include <string>
#include <vector>

#include "verify/replay/replay.h"

namespace verify {

std::string report_junit(const std::vector<ScenarioReport>& reports);

}  // namespace verify
