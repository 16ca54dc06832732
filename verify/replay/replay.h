#pragma once

/// Replays one scenario: reads its request, and runs every check of the table that applies (replay_checks.h).
///
/// Errors  No refusal is thrown: it is kept in the report, and a refusal that the scenario expects
///         becomes a check. unknown_program: --program names no planted program; program_world: the world
///         is too small or too large for it; those of scenario_request.h and trained_model.h.

#include <optional>

#include "verify/checks/trained_model.h"
#include "verify/options/scenario_request.h"
#include "verify/replay/replay_checks.h"
#include "verify/replay/scenario_report.h"

namespace verify {

/// Is told of steps that nobody wants to see.
inline const BeforeStep kTellNobody = [](const ReplayStep&) {};

/// A replayed scenario, with the request and the model that were read for it. Each is absent where it was
/// refused.
struct Replayed {
  ScenarioReport report;
  std::optional<ScenarioRequest> request;
  std::optional<TrainedModel> model;  // present where the scenario trains
};

/// Reads the request of a scenario and proves it. `device` keeps its memory from one scenario to the next.
/// `before_step` is told of every step.
Replayed replay(const Scenario& scenario, sim::Device& device, const BeforeStep& before_step = kTellNobody);
/// Proves a request that has already been read.
Replayed replay(const Scenario& scenario, ScenarioRequest request, sim::Device& device,
                const BeforeStep& before_step = kTellNobody);

}  // namespace verify
