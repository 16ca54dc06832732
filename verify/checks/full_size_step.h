#pragma once

/// One training step of the scenario's own model at its full size, on virtual ranks of a device of shapes. Every
/// call of every rank that runs is matched with those of its group: its place in the order, kind, size, dtype,
/// root and peer. A call that hangs or disagrees at full size is found here.
///
/// Shapes  Of the data-parallel replicas one or two run, and the others are folded into them (replica_fold.h),
///         unless every rank is asked for. A step of more than kMostStepCalls calls runs only if it is.
/// Exact   The row holds if all calls are matched and the ledger of all ranks equals the closed forms
///         (step_totals.h).

#include <cstdint>
#include <string>
#include <vector>

#include "sim/world/simulate.h"
#include "verify/checks/check_result.h"
#include "verify/options/scenario_request.h"

namespace verify {

#ifdef SHARDPROOF_SANITIZED
inline constexpr std::int64_t kMostStepCalls = 30'000;  // with sanitizers a call takes thirty times as long
#else
inline constexpr std::int64_t kMostStepCalls = 300'000;  // one to three seconds
#endif

/// The arithmetic of the passes of a rank of one pipeline rank, without the optimizer. All its ranks do the same.
struct StageWork {
  std::int64_t multiply_adds = 0;
  bool operator==(const StageWork&) const = default;
};

struct StepReport {
  CheckResult row;
  std::vector<sim::LedgerRow> ledger;  // of all ranks
  std::vector<StageWork> stages;       // by pipeline rank
  std::vector<sim::Finding> findings;
};

/// Returns about how many calls the replicas that run make.
std::int64_t step_calls(const ScenarioRequest& request, std::int64_t replicas);

/// Runs a step. The scenario must be one that runs at full size (full_size_training.h).
StepReport full_size_step(const ScenarioRequest& request);

}  // namespace verify
