#pragma once

/// Checks the layers of a scenario on virtual ranks. Cases run at the scenario's tp, with its flags (sequence
/// parallelism, gated MLP, biases, norm, rotary positions, query groups) and at reduced sizes. They run
/// on two tensor-model-parallel groups side by side where the layout has more than one.
///
/// Shapes  Reduced sizes are a few elements per rank, so that a size that divides in the scenario divides
///         here. A tp above 16 runs as 16, and the row says so.
/// Calls   A scenario may name cases, properties and dtypes. The defaults are all cases of its model, the
///         field, and every property that is judged there except schedules.
/// Errors  nothing_to_check: none of the named properties judges any of the named cases and dtypes; those of
///         case_request.h. Heads and query groups fit tp, because megatron_validation.h refuses all others.

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "verify/checks/check_result.h"
#include "verify/checks/proved_settings.h"
#include "verify/properties/bench.h"
#include "verify/requests/scenario_request.h"

namespace verify {

/// Returns the number of judgements that check_sharded_layers() makes where all hold.
std::size_t sharded_judgements(const ScenarioRequest& scenario);

/// Returns one row for each property that judges a case: "sharded serial", ... Settings that are `proved` do
/// not run again. `before_judgement` is called before each judgement with the name of its row.
std::vector<CheckResult> check_sharded_layers(
    const ScenarioRequest& scenario, Bench& bench, ProvedSettings& proved,
    const std::function<void(const std::string&)>& before_judgement = [](const std::string&) {});

}  // namespace verify
