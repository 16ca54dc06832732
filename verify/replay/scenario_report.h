#pragma once

/// What a replay of one scenario came to: its rows, and what pages, traces and documents show beside them.

#include <optional>
#include <string>
#include <vector>

#include "sim/base/error.h"
#include "sim/layout/layout.h"
#include "sim/layout/node_placement.h"
#include "sim/world/simulate.h"
#include "verify/backends/bandwidth_round.h"
#include "verify/checks/check_result.h"
#include "verify/checks/model_memory.h"
#include "verify/checks/traced_run.h"
#include "verify/checks/training_curve.h"
#include "verify/options/schedule_request.h"

namespace verify {

/// broken: a rank program broke a contract (deadlock, mismatch, ...), and was not expected to.
enum class Verdict { verified, falsified, refused, broken };

struct ScenarioReport {
  std::string path;
  std::string name;
  std::string source;
  std::vector<CheckResult> checks;
  std::vector<sim::Warning> warnings;
  std::optional<sim::Refusal> refusal;  // set when the verdict is refused
  std::vector<sim::LedgerRow> ledger;   // of the virtual ranks
  std::vector<sim::Finding> findings;   // set when the verdict is broken, or one is expected
  std::optional<TrainingCurve> training;
  std::optional<TracedRun> trace;  // where --trace is asked for, and ranks ran
  std::optional<sim::Layout> layout;
  sim::NodePlacement nodes;
  std::optional<ScheduleRequest> schedule;  // of more than one pipeline rank
  std::string no_schedule;                  // why such a pipeline has none
  std::optional<MemoryReport> memory;
  BandwidthRows bandwidth;  // of ranks that are processes
  std::string reproduce;    // the line that does it again; set by the command
  Verdict verdict() const;
};

}  // namespace verify
