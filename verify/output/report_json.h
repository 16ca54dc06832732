#pragma once

/// The JSON forms that several commands share: refusals, warnings, findings and rows of the ledger.

#include <string>
#include <vector>

#include "sim/base/error.h"
#include "sim/comm/ledger.h"
#include "sim/layout/layout.h"
#include "sim/world/finding.h"
#include "verify/output/json.h"

namespace verify {

Json refusal_json(const sim::Refusal& refusal);
/// Adds the member "error" to a document, and "further_errors" if there are more refusals.
void add_refusals(Json& document, const sim::Refusal& first, const std::vector<sim::Refusal>& further);
Json warnings_json(const std::vector<sim::Warning>& warnings);
Json finding_json(const sim::Finding& finding);
Json ledger_json(const sim::LedgerRow& row);

}  // namespace verify
