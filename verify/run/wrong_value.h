#pragma once

/// What a wrong value is, by the first relation with the right ones that all of its elements have: no number,
/// zero, a factor, terms of ranks whose sum is missing, another tensor, the value of a step before.
///
/// Exact   a relation holds up to 2^25 roundings of the largest element. It is stated as it is, without its
///         cause.

#include <string>

#include "verify/run/compared_values.h"

namespace verify {

/// Returns the end of the sentence "the gradient of x in step 0: ...".
std::string explained_value(const WrongValue& wrong, const GlobalValue& got, const GlobalValues& reference,
                            const NamesOfLayout& names);

}  // namespace verify
