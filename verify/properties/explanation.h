#pragma once

/// Explains why a case fails at a setting, by experiments in the field, where nothing fits by chance. The
/// experiments are tried in this order:
///
///   calls      which collective is missing, doubled or of another size, on which ranks, at which line
///   terms      each rank holds its own term, or the sum of a part of the group
///   factors    every element is the serial one times, or divided by, a number of the setting (tp, a
///              dimension)
///   inputs     the serial reference gives the same result if one input, or one rank's part of it, counts 0,
///              2, -1 or tp times; the first 1,000 of these changes are tried
///   places     the rows or the columns are right, but lie in other places
///   extent     otherwise: how many elements differ, in which rows and columns, on which ranks
///
/// Exact   an explanation states only what an experiment has shown, for every element of the tensor.

#include <string>

#include "verify/properties/bench.h"
#include "verify/properties/properties.h"

namespace verify {

/// Returns sentences that end with ".". Returns "" if the run itself breaks a contract, or if nothing is
/// wrong in the field; for the property serial in floats the latter is itself the explanation.
std::string explanation(Bench& bench, const Case& the_case, const Property& property,
                        const CaseSetting& setting);

}  // namespace verify
