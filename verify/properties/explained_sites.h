#pragma once

/// Names the calls and kernels that reach what is wrong in a run in the field: at each of them, one after
/// another, the result is changed, and the tensors that differ then are compared with those that are wrong.
///
/// Exact   A site is named where the tensors that it reaches are the wrong ones and no others. Where there is
///         none, those are named that reach all wrong tensors and the fewest others. Nothing is said where
///         more than three sites cannot be told apart.

#include <string>

#include "verify/properties/bench.h"

namespace verify {

/// Returns "the wrong tensors are those that 'mlp.forward' reaches", or "" where nothing can be said.
std::string explain_sites(Bench& bench, const Case& the_case, const CaseSetting& setting,
                          const sim::RunReport& report);

}  // namespace verify
