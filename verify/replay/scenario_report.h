#pragma once

/// The result of a replay of one scenario: its rows, and the data that pages, traces and documents show
/// with them. A verdict is the exit code of the program that means it (output.h).

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/error.h"
#include "sim/layout/layout.h"
#include "sim/layout/node_placement.h"
#include "sim/world/simulate.h"
#include "verify/backends/bandwidth_round.h"
#include "verify/checks/check_result.h"
#include "verify/checks/pipeline_schedule.h"
#include "verify/checks/traced_run.h"
#include "verify/full_size/full_size_step.h"
#include "verify/memory/model_memory.h"
#include "verify/output/output.h"
#include "verify/requests/requests.h"

namespace verify {

/// A row that is missing although the scenario may lead a reader to expect it.
struct AbsentRow {
  std::string check;
  std::string reason;  // "--vocab-size is not given"
  /// By an option that the row answers, or by a run of which it cannot prove a part.
  bool is_asked_for = false;
};

struct ScenarioReport {
  std::string path;
  std::string name;
  std::string source;
  std::vector<std::string> options;  // of the run, as they are written on the command line
  std::vector<CheckResult> checks;
  std::vector<AbsentRow> absent;
  bool allows_skipped = false;  // a row that was asked for may be absent
  std::vector<sim::Warning> warnings;
  std::optional<sim::Refusal> refusal;         // set when the verdict is refused
  std::vector<sim::Refusal> further_refusals;  // of the same configuration
  std::vector<sim::LedgerRow> ledger;          // the calls of the collective round, or of a program
  std::vector<sim::Finding> findings;          // set when the verdict is broken, or a finding is expected
  std::optional<TrainingCurve> training;
  std::optional<TracedRun> trace;  // present if --trace is given and ranks ran
  std::optional<sim::Layout> layout;
  sim::NodePlacement nodes;
  std::optional<ScheduleRequest> schedule;  // of one step, with more than one pipeline rank
  std::string no_schedule;                  // the reason why such a pipeline has no schedule
  std::optional<PipelineReport> pipeline;
  std::optional<MemoryReport> memory;
  std::optional<StepReport> step;  // of the model at its full size
  BandwidthRows bandwidth;         // timings between ranks that are processes
  std::string reproduce;           // the command line that reproduces it; set by the command
  /// The seconds that each row took here, by the name of the row. They are not part of the result, and only
  /// the JUnit file shows them. The command sets them.
  std::map<std::string, double> seconds;
  /// `kBroken` means that a rank program broke a contract (deadlock, mismatch, ...) and the scenario does not
  /// expect a finding. `kSuspect` means that every check holds, and that Megatron accepts the layout and then
  /// works on the wrong ranks (sim/layout/consumer_traps.h), which the scenario does not expect. `kInPart`
  /// means that every row holds, and that one that was asked for is absent.
  ExitCode verdict() const;
  bool has_row(const std::string& check) const;
};

// The summary of several scenarios.

std::size_t count_of(const std::vector<ScenarioReport>& reports, ExitCode verdict);

/// Returns the worst verdict: falsified is worse than broken, broken than refused, refused than suspect,
/// suspect than verified in part.
ExitCode overall(const std::vector<ScenarioReport>& reports);

/// Returns a line such as "verified: 2 scenarios, 20 checks; 2 verified, 0 falsified, ...", or "verified in
/// part: memory not checked (--vocab-size is not given); 1 scenario, ...".
std::string summary_line(const std::vector<ScenarioReport>& reports);

/// What a verdict is about. Both are empty where nothing was proved.
struct Bound {
  std::vector<std::string> ran;  // with what was reduced; of several scenarios what they have in common
  std::vector<std::string> not_proved;
};
Bound bound_of(const std::vector<ScenarioReport>& reports);
/// Two lines: "ran: ..." and "not proved: ..."; "" where nothing was proved.
std::string text_of(const Bound& bound);

/// Returns the ledger with one row for each kind of groups, summed over all sites, operations and dtypes:
/// kind, calls, elements and bytes are set, and `most_bytes` is the sum of those of the rows.
std::vector<sim::LedgerRow> ledger_by_kind(const std::vector<sim::LedgerRow>& ledger);

}  // namespace verify
