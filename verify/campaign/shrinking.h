#pragma once

/// Makes a failing setting smaller for as long as it fails: fewer ranks first, then fewer replicas, then each
/// dimension towards its least number. The dtype, the seed and all else in a setting stay the same.
///
/// Exact   the result fails, and no single step from it does. A step replaces one number by a smaller one:
///         by any of those above its least where they are at most 16, and otherwise by those whose distance
///         from the number or from its least is 0 or a power of two.

#include <functional>

#include "verify/cases/case.h"

namespace verify {

/// Returns the smallest setting that single steps lead to from `failing`. `fails` tells whether a setting
/// fails.
CaseSetting shrunk(const Case& the_case, CaseSetting failing,
                   const std::function<bool(const CaseSetting&)>& fails);

}  // namespace verify
