#pragma once

/// Why a case fails at a setting, found by experiments in the field, where nothing fits by chance:
///
///   calls      which collective is missing, doubled or of another size, on which ranks, at which line
///   terms      each rank holds its own term, or the sum of a part of the group
///   factors    every element is a number of the setting (tp, a dimension) times the serial one, or one over
///              it
///   inputs     the serial reference gives the same where one input, or one rank's part of it, counts 0, 2,
///              -1 or tp times; the first 1,000 of these are tried
///   places     rows or columns are right, and lie in other places
///   extent     else: how many elements differ, in which rows and columns, on which ranks
///
/// Exact   what is said is what was tried: an explanation holds for every element of the tensor.

#include <string>

#include "verify/properties/bench.h"
#include "verify/properties/properties.h"

namespace verify {

/// Sentences that end with "."; "" where the run itself breaks a contract, and where the field sees nothing
/// wrong.
std::string explanation(Bench& bench, const Case& the_case, const Property& property,
                        const CaseSetting& setting);

}  // namespace verify
