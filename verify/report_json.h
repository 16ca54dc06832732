#pragma once

/// The JSON form of what more than one command reports: refusals, warnings, findings, ledger.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "sim/base/error.h"
#include "sim/comm/ledger.h"
#include "sim/layout/layout.h"
#include "sim/world/finding.h"

namespace verify {

nlohmann::ordered_json refusal_json(const sim::Refusal& refusal);
nlohmann::ordered_json warnings_json(const std::vector<sim::Warning>& warnings);
nlohmann::ordered_json finding_json(const sim::Finding& finding);
nlohmann::ordered_json ledger_json(const sim::LedgerRow& row);

/// One line; bytes that are no UTF-8 (a file's name, an option's text) become replacement characters.
std::string one_line(const nlohmann::ordered_json& document);

}  // namespace verify
