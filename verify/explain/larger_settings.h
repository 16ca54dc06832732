#pragma once

/// Settings of a run that is wrong which show more of it: with larger sizes, and the same calls.

#include <string>
#include <vector>

#include "verify/properties/bench.h"

namespace verify {

/// Whether a dimension makes the result of a training no linear function of its calls: a second step, and a
/// norm by which gradients are clipped.
bool bends(const Dimension& dimension);

/// Returns the setting with one size after another raised, where that leaves the number of calls as it is,
/// the largest first. A size is what is counted from 1 on. Steps are none: behind a second one an update
/// reaches all gradients.
std::vector<CaseSetting> larger_settings(Bench& bench, const Case& the_case, const CaseSetting& setting,
                                         const sim::RunReport& report);

/// Returns the sizes that are larger: "sequence 3, hidden 3".
std::string text_of_larger(const CaseSetting& larger, const CaseSetting& setting);

}  // namespace verify
