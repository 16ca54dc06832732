#pragma once

/// The ledger with one row for each kind of groups, summed over all sites, operations and dtypes. The kinds
/// keep their order.

#include <vector>

#include "sim/comm/ledger.h"

namespace verify {

/// Returns rows in which kind, calls, elements and bytes are set. `most_bytes` is the sum of those of the
/// summed rows.
std::vector<sim::LedgerRow> ledger_by_kind(const std::vector<sim::LedgerRow>& ledger);

}  // namespace verify
