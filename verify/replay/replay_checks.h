#pragma once

/// The table of the checks of replay. A row says what the check proves, why it may be missing, and how it
/// runs. replay() walks the table in order; the command list and the pages read the names from it.
///
/// Calls   A new check is a file in verify/checks/ and a row in this table and in checks.tsv.
/// Errors  unknown_program: --program names no planted program; program_world: the world has fewer than 2 or
///         more than 4,096 ranks for it; those of the checks.

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "verify/checks/proved_settings.h"
#include "verify/checks/trained_model.h"
#include "verify/properties/bench.h"
#include "verify/replay/replay_step.h"
#include "verify/replay/scenario_report.h"
#include "verify/requests/scenario_request.h"

namespace verify {

/// The state of a scenario while its checks run.
struct Replaying {
  const ScenarioRequest& request;
  const std::optional<TrainedModel>& model;  // present if the scenario trains
  sim::Device& device;
  ProvedSettings& proved;  // by all scenarios of the replay
  ScenarioReport& report;
  const BeforeStep& before_step;
  std::size_t steps = 0;           // of this scenario
  std::size_t begun = 0;           // the steps that have begun
  std::vector<Fault> faults = {};  // that --plant plants
  Bench bench = Bench();
  bool is_partitioned = false;  // the check "partition" held; most others rely on it

  void begin(const std::string& row) { before_step({row, begun++, steps}); }
  void add(CheckResult row) { report.checks.push_back(std::move(row)); }
};

enum class CheckOf {
  layout,   // the check computes only with the options
  ranks,    // virtual ranks run
  reduced,  // virtual ranks run, in sizes that do not depend on those of the scenario
};

struct ReplayCheck {
  const char* name;
  /// Returns nothing if the check has rows; else why not, "" if a reader does not expect them.
  std::optional<std::string> (*missing)(const Replaying& scenario);
  /// Adds the rows of this check. It is null if replay() or a replay on a backend makes the row.
  void (*run)(Replaying& scenario);
  CheckOf of = CheckOf::layout;
  /// Returns the number of steps that `run` begins itself. It is null if the check is one step, which begins
  /// before `run`.
  std::size_t (*steps)(const Replaying& scenario) = nullptr;
  std::string proves = {};                 // from checks.tsv
  std::vector<std::string> asked_by = {};  // options that the row answers; from checks.tsv
};

const std::vector<ReplayCheck>& replay_checks();

}  // namespace verify
