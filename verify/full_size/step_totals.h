#pragma once

/// The calls of one training step by all ranks of a world, in closed form.
///
/// Shapes  rows for each kind of groups, site and operation. Messages have one row for each kind and
///         operation: at which of its sites a schedule sends them between stages is its own choice.
/// Exact   Nothing is run, and nothing of the model, the optimizer or the schedules is asked: the calls of a
///         layer are those of verify/cases/token_calls.h, those of its experts those of balanced_experts.h,
///         the parameters of a stage those of the check "memory" without the biases of routers, their
///         buckets those of the reference.

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sim/comm/ledger.h"
#include "verify/options/scenario_request.h"

namespace verify {

struct TotalKey {
  std::string kind;
  std::string site;  // "" for messages
  sim::Operation operation = sim::Operation::barrier;
  auto operator<=>(const TotalKey&) const = default;
};
struct CallTotal {
  std::int64_t calls = 0;
  std::int64_t elements = 0;
  bool operator==(const CallTotal&) const = default;
};
using StepTotals = std::map<TotalKey, CallTotal>;

/// Returns what all ranks call in a step, from the making of the model to the loss. The scenario must be one
/// that runs at full size (full_size_training.h).
StepTotals expected_step_totals(const ScenarioRequest& request);

/// Returns the rows of a ledger in the same form.
StepTotals totals_of(const std::vector<sim::LedgerRow>& ledger);

/// Returns the first row in which they differ, in words; "" if there is none.
std::string difference(const StepTotals& expected, const StepTotals& made);

}  // namespace verify
