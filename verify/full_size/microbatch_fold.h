#pragma once

/// Microbatches that behave alike are folded: a step of few of them runs, and the ledger of all is computed.
///
/// Shapes  a period is the least number of microbatches of a step: one, or a group of an interleaved
///         schedule. Steps of one period and of two run.
/// Errors  microbatch_fold: calls of a site that are neither twice as many in two periods as in one, nor as
///         many.
/// Exact   The rule: what a rank calls in a forward or backward step of a chunk does not depend on the number
///         of the microbatch, and all of these calls are between ranks of one pipeline rank, all of which
///         have the same schedule. A step is therefore matched with any number of microbatches as it is with
///         one, if the messages between the steps are, which the check "schedule" proves for all of them.
///         That the calls do not depend on the number is checked: those of each site are twice as many in
///         two periods, or, outside of the schedule, as many. Messages are counted in the schedule itself,
///         because the site of a message depends on what is sent beside it.

#include <vector>

#include "sim/world/simulate.h"
#include "verify/requests/scenario_request.h"

namespace verify {

/// Returns the microbatches of a period; 0 if those of the scenario cannot be folded: two periods or fewer,
/// no whole number of periods, or a schedule that the check "schedule" leaves out.
std::int64_t microbatches_of_a_period(const ScenarioRequest& request);

/// Returns the scenario with another number of microbatches, and a batch of that size.
ScenarioRequest with_microbatches(ScenarioRequest request, std::int64_t microbatches);

/// Returns the ledger of all microbatches, from those of one period and of two.
std::vector<sim::LedgerRow> ledger_of_microbatches(const ScenarioRequest& request,
                                                   const std::vector<sim::LedgerRow>& one,
                                                   const std::vector<sim::LedgerRow>& two);

}  // namespace verify
