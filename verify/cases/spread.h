#pragma once

/// The bounds that a reference's own perturbed runs give (reference/perturbed.h): for computations so deep
/// that the worst of each operation, added up, says nothing.
///
/// Shapes  of each output value and bound: the plain run, and so many times the largest deviation of so many
///         others.
/// Exact   the same for any number of threads. Where a run is not finite and the plain one is, there is no
///         bound.

#include <functional>

#include "verify/cases/case.h"

namespace verify {

/// Of a dtype, where sums are spread over so many ranks.
reference::Rounding rounding_of(sim::DType dtype, int parts);

/// Whether every element has a bound.
bool is_bounded(const Wholes<reference::Bounded>& wholes);

using PerturbedRun = std::function<Wholes<reference::Perturbed>(reference::Perturbation)>;

Wholes<reference::Bounded> spread(const reference::Rounding& rounding, const PerturbedRun& run,
                                  const reference::SpreadSize& size, int threads);

}  // namespace verify
