#pragma once

/// One training step of the scenario's own model at its full size, on virtual ranks of a device of shapes.
/// Every call of every rank that runs is matched with those of its group: its place in the order, kind, size,
/// dtype, root and peer. A call that hangs or disagrees at full size is found here.
///
/// Shapes  All replicas run with all microbatches if they make few calls together, or if every rank is asked
///         for. Otherwise two blocks of replicas run, or one, and the others are folded into them
///         (replica_fold.h). Where a block makes more than kMostStepCalls calls, microbatches are folded, too
///         (microbatch_fold.h), and then the tensor-parallel ranks of a dense model. What then makes more
///         than kMostFoldedCalls runs only if every rank is asked for. Experts are chosen as
///         balanced_experts.h says.
/// Exact   The row holds if all calls are matched and the ledger of all ranks equals the closed forms
///         (step_totals.h), with its dtypes and bytes, and so do the multiply-adds of the ranks of each stage
///         and what they hold between steps (gradient_buffers.h). The states of the optimizer are compared
///         where all replicas run, because one of the others may own most.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/world/simulate.h"
#include "verify/checks/check_result.h"
#include "verify/full_size/gradient_buffers.h"
#include "verify/requests/scenario_request.h"

namespace verify {

#ifdef SHARDPROOF_SANITIZED
inline constexpr std::int64_t kMostStepCalls = 30'000;  // with sanitizers a call takes thirty times as long
#else
inline constexpr std::int64_t kMostStepCalls = 300'000;  // one to three seconds
#endif
inline constexpr std::int64_t kMostFoldedCalls = kMostStepCalls * 3 / 2;

/// The arithmetic of forward and backward on the ranks of one pipeline rank, without the optimizer's, and the
/// bytes that the program holds: of the rank that does or holds most, where some have more rows of experts
/// than others. What Megatron's kernels hold while passes run is another question (verify/memory).
struct StageWork {
  std::int64_t multiply_adds = 0;
  StaticBytes held;  // between steps
  // The most that passes held beside them; absent where microbatches are folded, of which more may be in
  // flight.
  std::optional<std::int64_t> working_bytes;
  bool operator==(const StageWork&) const = default;
};

struct StepReport {
  CheckResult row;
  std::vector<sim::LedgerRow> ledger;  // of all ranks
  std::vector<StageWork> stages;       // by pipeline rank
  std::string choice_of_experts;       // "balanced choice: ..."; "" for a dense model
  std::vector<std::string> left_out;   // what the scenario has and the step has not
  std::vector<sim::Finding> findings;
};

/// The part of a step that runs.
struct StepPart {
  int replicas = 1;  // data-parallel ones: all of them, two blocks or one
  bool folds_microbatches = false;
  bool folds_tp = false;
};

/// Returns how many replicas make the least block that can run for all.
int block_of_replicas(const ScenarioRequest& request);

/// Returns about how many calls a part makes; kMaxSize + 1 if there are more.
std::int64_t step_calls(const ScenarioRequest& request, const StepPart& part);

/// Returns the largest part that makes few calls; if there is none, the smallest.
StepPart running_part(const ScenarioRequest& request);

/// Runs a part of a step. The scenario must be one that runs at full size (full_size_training.h).
StepReport full_size_step(const ScenarioRequest& request, const StepPart& part);

}  // namespace verify
