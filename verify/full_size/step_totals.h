#pragma once

/// The calls of training steps by all ranks of a world, in closed form, with the bytes that they send inside
/// nodes and across them.
///
/// Shapes  rows for each kind of groups, site, operation and dtype. Messages have one row for each kind and
///         operation: at which of its sites a schedule sends them between stages is its own choice.
/// Exact   the calls are those of step_work.h, and their bytes those of kind_traffic.h.

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sim/comm/ledger.h"
#include "verify/full_size/kind_traffic.h"
#include "verify/full_size/step_work.h"
#include "verify/requests/scenario_request.h"

namespace verify {

struct TotalKey {
  std::string kind;
  std::string site;  // "" for messages
  sim::Operation operation = sim::Operation::barrier;
  sim::DType dtype = sim::DType::f32;
  auto operator<=>(const TotalKey&) const = default;
};
struct CallTotal {
  std::int64_t calls = 0;
  std::int64_t elements = 0;
  std::int64_t bytes_inside = 0;
  std::int64_t bytes_across = 0;
  bool operator==(const CallTotal&) const = default;
};
using StepTotals = std::map<TotalKey, CallTotal>;

/// Returns what all ranks call from the making of the model to the end of this many steps. The work of a step
/// must be known (step_work.h).
StepTotals expected_totals(const ScenarioRequest& request, std::int64_t steps = 1);

/// Returns the rows of a ledger in the same form.
StepTotals totals_of(const std::vector<sim::LedgerRow>& ledger);

/// The bytes that all ranks send in a step once the model is made, by kind of groups.
struct KindBytes {
  std::int64_t inside = 0, across = 0;
};
std::map<std::string, KindBytes> step_bytes(const ScenarioRequest& request, const std::vector<RankWork>& work,
                                            KindTraffic& traffic);

/// Returns the first row in which they differ, in words; "" if there is none.
std::string difference(const StepTotals& expected, const StepTotals& made);

}  // namespace verify
