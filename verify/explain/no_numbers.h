#pragma once

/// Finds where elements that are no numbers (NaN, or memory that nothing has written) come into a run in the
/// field: in the result of a call to which no rank gave one, or on a rank, between the result of one call and
/// what it gives to the next.
///
/// Exact   A rank is named only if no call gave it such an element before. A reduce_scatter in place leaves
///         the other blocks of its input unspecified: of a rank that has made one, only results are judged.

#include <string>

#include "verify/properties/bench.h"

namespace verify {

/// Returns phrases such as "what 'mlp.forward' is given on rank 1 has elements that are no numbers, and it is
/// the first call", separated by "; ". Returns "" where there are no such elements, or too many places.
std::string explain_no_numbers(Bench& bench, const Case& the_case, const CaseSetting& setting);

}  // namespace verify
