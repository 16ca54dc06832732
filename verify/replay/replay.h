#pragma once

/// Replays one scenario: builds its layout and proves it, one check after another (layout_checks.h), and then
/// what the scenario says of itself:
///
///   collectives  a collective round on virtual ranks, or the program named (collective_round.h,
///                planted_programs.h)
///   layers       every layer on exactly one stage                         (when it gives num-layers)
///   batch        the global batch divides over replicas and microbatches  (when it gives global-batch-size)
///   expected K   kind K's groups as the source prints them                (one per expect-groups)
///   parameters   the model's parameters, to the printed digits            (when it gives expect-parameters)
///   refusal      the layout is refused, for the stated reason             (when it says expect = refused)
///   finding      the program's defect is found, by its name               (when it gives expect-finding)
///
/// Errors  unknown_program; a refusal that the scenario does not expect is kept in the report; a failed check
///         never throws.

#include <optional>
#include <string>
#include <vector>

#include "sim/base/error.h"
#include "sim/layout/layout.h"
#include "sim/layout/node_placement.h"
#include "sim/world/simulate.h"
#include "verify/backends/bandwidth_round.h"
#include "verify/checks/layout_checks.h"
#include "verify/checks/model_memory.h"
#include "verify/checks/traced_run.h"
#include "verify/checks/training_curve.h"
#include "verify/options/scenario.h"
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

/// The device keeps its memory from one scenario to the next.
ScenarioReport replay(const Scenario& scenario, sim::Device& device);

/// The names and meanings of every check replay can make.
struct CheckInfo {
  const char* name;
  const char* proves;
};
const std::vector<CheckInfo>& replay_checks();

}  // namespace verify
