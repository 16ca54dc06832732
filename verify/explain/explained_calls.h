#pragma once

/// Which collective is missing, doubled, moved or of another size, on which ranks, and at which line.
///
/// Exact   Equal differences of several ranks are told once, and at most four differences. In a run that
///         broke a contract, calls are compared as far as each rank came.

#include <string>

#include "verify/properties/bench.h"

namespace verify {

/// Returns phrases that are separated by ";", or "" where all ranks make the expected calls.
std::string explain_calls(const Case& the_case, const CaseSetting& setting, const sim::RunReport& report);

}  // namespace verify
