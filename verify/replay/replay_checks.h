#pragma once

/// The table of the checks of replay. A row says what the check proves, when it applies, and how it runs.
/// replay() walks the table in order; the command list and the pages read the names from it.
///
/// Calls   A new check is a file in verify/checks/ and a row in this table.
/// Errors  unknown_program: --program names no planted program; program_world: the world has fewer than 2 or
///         more than 4,096 ranks for it; those of the checks.

#include <optional>
#include <vector>

#include "verify/checks/trained_model.h"
#include "verify/options/scenario_request.h"
#include "verify/properties/bench.h"
#include "verify/replay/scenario_report.h"

namespace verify {

/// The state of a scenario while its checks run.
struct Replaying {
  const ScenarioRequest& request;
  const std::optional<TrainedModel>& model;  // present where the scenario trains
  sim::Device& device;
  ScenarioReport& report;
  Bench bench = Bench();
  bool is_partitioned = false;  // the check "partition" held; most others rely on it

  void add(CheckResult row) { report.checks.push_back(std::move(row)); }
};

struct ReplayCheck {
  const char* name;
  const char* proves;
  bool (*applies)(const Replaying& scenario);
  /// Adds the rows of this check. It is null where replay() or a replay on a backend makes the row.
  void (*run)(Replaying& scenario);
};

const std::vector<ReplayCheck>& replay_checks();

}  // namespace verify
