#pragma once

/// The checks of replay, as a table: what each proves, when it applies, and how it runs. replay() walks the
/// table in order; the command list and the pages read the names from it.
///
/// Calls   a new check is a file in verify/checks/ and a row here.

#include <optional>
#include <vector>

#include "verify/checks/trained_model.h"
#include "verify/options/scenario_request.h"
#include "verify/properties/bench.h"
#include "verify/replay/scenario_report.h"

namespace verify {

/// A scenario while its checks run.
struct Replaying {
  const ScenarioRequest& request;
  const std::optional<TrainedModel>& model;  // where the scenario trains
  sim::Device& device;
  ScenarioReport& report;
  Bench bench = Bench();
  bool is_partitioned = false;  // the check "partition" held; the others count on it

  void add(CheckResult row) { report.checks.push_back(std::move(row)); }
};

struct ReplayCheck {
  const char* name;
  const char* proves;
  bool (*applies)(const Replaying& scenario);
  /// Adds the rows. Null: replay() itself, or a replay on a backend, makes the row.
  void (*run)(Replaying& scenario);
};

const std::vector<ReplayCheck>& replay_checks();

}  // namespace verify
