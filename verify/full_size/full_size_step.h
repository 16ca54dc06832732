#pragma once

/// One training step of the scenario's own model at its full size, on virtual ranks of a device of shapes.
/// Every call of every rank that runs is matched with those of its group: its place in the order, kind, size,
/// dtype, root and peer. A call that hangs or disagrees at full size is found here.
///
/// Shapes  All replicas run if they make few calls together, or if every rank is asked for. Otherwise two
///         run, or one, and the others are folded into them (replica_fold.h). A replica of more than
///         kMostStepCalls calls runs only if every rank is asked for.
/// Exact   The row holds if all calls are matched, and the ledger of all ranks with its bytes, and the
///         multiply-adds of the ranks of each stage, equal the closed forms (step_totals.h, step_work.h).

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

/// The arithmetic of forward and backward on the ranks of one pipeline rank, all of which do the same. The
/// optimizer's is not counted.
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

/// Returns about how many calls so many replicas make; kMaxSize + 1 if there are more.
std::int64_t step_calls(const ScenarioRequest& request, std::int64_t replicas);

/// Returns how many of the data-parallel replicas run: all of them, 2 or 1.
int running_replicas(const ScenarioRequest& request);

/// Runs a step on so many replicas. The scenario must be one that runs at full size (full_size_training.h).
StepReport full_size_step(const ScenarioRequest& request, int replicas);

}  // namespace verify
