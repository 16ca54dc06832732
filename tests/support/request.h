#pragma once

/// Typed requests from options by name, read as the command line reads them.

#include "verify/requests/case_options.h"
#include "verify/requests/scenario_request.h"

namespace test {

verify::ScenarioRequest scenario_request(const verify::NamedValues& options);
verify::CaseOptions case_options(const verify::NamedValues& options);

}  // namespace test
