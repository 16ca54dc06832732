#pragma once

/// Replays one scenario: reads its request, and runs every check of the table that applies (replay_checks.h).
///
/// Errors  No refusal is thrown: it is kept in the report, and a refusal that the scenario expects
///         becomes a check. unknown_program: --program names no planted program; program_world: the world
///         is too small or too large for it; those of scenario_request.h and trained_model.h.

#include <optional>

#include "verify/checks/proved_settings.h"
#include "verify/checks/trained_model.h"
#include "verify/replay/replay_step.h"
#include "verify/replay/scenario_report.h"
#include "verify/requests/scenario_request.h"

namespace verify {

/// Does nothing before a step.
inline const BeforeStep kTellNobody = [](const ReplayStep&) {};

/// A replayed scenario, with the request and the model that were read for it. Each is absent if it was
/// refused.
struct Replayed {
  ScenarioReport report;
  std::optional<ScenarioRequest> request;
  std::optional<TrainedModel> model;  // present if the scenario trains
};

/// Reads the request of a scenario and proves it. `device` keeps its memory, and `proved` what is proved,
/// from one scenario to the next. `before_step` is called before every step.
Replayed replay(const Scenario& scenario, sim::Device& device, const BeforeStep& before_step,
                ProvedSettings& proved);
/// Proves a request that has already been read.
Replayed replay(const Scenario& scenario, ScenarioRequest request, sim::Device& device,
                const BeforeStep& before_step, ProvedSettings& proved);
/// Replays a scenario by itself.
Replayed replay(const Scenario& scenario, sim::Device& device, const BeforeStep& before_step = kTellNobody);

}  // namespace verify
