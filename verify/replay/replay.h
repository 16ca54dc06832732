#pragma once

/// Replays one scenario: reads what it asks for, and makes every check of the table that applies
/// (replay_checks.h).
///
/// Errors  A refusal that the scenario does not expect is kept in the report; a failed check never throws.
///         Programs that are not known or do not fit the world are refused: unknown_program, program_world.

#include <optional>

#include "verify/checks/trained_model.h"
#include "verify/options/scenario_request.h"
#include "verify/replay/scenario_report.h"

namespace verify {

/// A scenario that was replayed, with what was read for it; request and model are absent where they were
/// refused.
struct Replayed {
  ScenarioReport report;
  std::optional<ScenarioRequest> request;
  std::optional<TrainedModel> model;  // where the scenario trains
};

/// Reads the request, and proves it. The device keeps its memory from one scenario to the next.
Replayed replay(const Scenario& scenario, sim::Device& device);
/// Proves a request that has been read.
Replayed replay(const Scenario& scenario, ScenarioRequest request, sim::Device& device);

}  // namespace verify
