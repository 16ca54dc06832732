#pragma once

/// Bounds from perturbed runs of a reference (verify/reference/perturbed.h), for computations so deep that
/// the sum of the worst cases of all operations is too wide to be useful.
///
/// Shapes  the value of an element is that of the plain run. Its bound is SpreadSize::deviations times the
///         largest deviation of SpreadSize::runs perturbed runs. The elements of an output whose name ends
///         with exp_avg_sq are second moments, which are means of squares, so that their roots deviate like
///         other elements: where a root r has the bound D, its square has the bound 2 r D + D^2.
/// Exact   the result is the same for any number of threads. An element that is finite in the plain run and
///         not finite in a perturbed one has no bound.

#include <functional>

#include "verify/cases/case_inputs.h"

namespace verify {

/// Returns the rounding of a candidate of this dtype, whose sums are spread over `parts` ranks.
reference::Rounding rounding_of(sim::DType dtype, int parts);

/// Returns whether every element has a finite bound.
bool is_bounded(const Wholes<reference::Bounded>& wholes);

using PerturbedRun = std::function<Wholes<reference::Perturbed>(reference::Perturbation)>;

Wholes<reference::Bounded> spread(const reference::Rounding& rounding, const PerturbedRun& run,
                                  const reference::SpreadSize& size, int threads);

}  // namespace verify
