#pragma once

/// The JUnit XML of a replay, as build servers read it: a testsuite a scenario, a testcase a check. A check
/// that does not hold is a failure; a refusal, and the findings of a scenario that expected none, are errors.
/// No times: they would differ from run to run.
///
/// Exact   the same reports give the same bytes; well-formed for any text of a scenario.
/// Source  the JUnit schema as Jenkins and GitLab read it.

#include <string>
#include <vector>

#include "verify/replay/replay.h"

namespace verify {

std::string report_junit(const std::vector<ScenarioReport>& reports);

}  // namespace verify
