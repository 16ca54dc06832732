#pragma once

/// The ledger with one row a group kind, over all sites, operations and dtypes; the order of kinds stays.

#include <vector>

#include "sim/comm/ledger.h"

namespace verify {

/// Of each row the kind, calls, elements and bytes are set. `most_bytes` adds up those of the sites.
std::vector<sim::LedgerRow> ledger_by_kind(const std::vector<sim::LedgerRow>& ledger);

}  // namespace verify
