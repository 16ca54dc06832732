#pragma once

/// A tensor that is wrong in floats and right in the field: a factor, an error of the size of rounding, or
/// something else.
///
/// Exact   an error that rounding every operation to bf16 would not explain is never called one of rounding.

#include <string>

#include "verify/properties/bench.h"

namespace verify {

std::string explain_floats(Bench& bench, const Case& the_case, const CaseSetting& setting);

}  // namespace verify
