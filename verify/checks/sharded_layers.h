#pragma once

/// The layers of a scenario on virtual ranks: cases at its own tp, with its own flags (sequence parallelism,
/// gated MLP, biases, norm, rotary positions, query groups) and at reduced sizes, two tensor-model-parallel
/// groups side by side where it has them.
///
/// Shapes  sizes that are cut are a few elements a rank, so that what divides in the scenario divides here. A
///         tp above 16 is run as 16, and the row says so.
/// Calls   a scenario may name cases, properties and dtypes; else all cases of its model, and in the field
///         every property that is judged there, but schedules.
/// Errors  nothing_to_check: no property that is named judges a case and dtype that are named;
///         attention_heads; those of case_request.h.

#include <vector>

#include "verify/checks/check_result.h"
#include "verify/options/scenario_request.h"
#include "verify/properties/bench.h"

namespace verify {

/// One row for each property: "sharded serial", ...
std::vector<CheckResult> check_sharded_layers(const ScenarioRequest& scenario, Bench& bench);

}  // namespace verify
