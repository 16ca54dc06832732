#pragma once

/// Compares what a run published with what its case declares. A run can be judged only if each rank published
/// its part of every declared tensor once, in the dtype of the case, if the parts fit together, and if
/// nothing else was published, because it would not be judged.
///
/// Exact   declared tensors are checked first, in the order of outputs(), then other published tensors, in
///         the order of ranks and names. The first difference is returned.

#include <string>
#include <vector>

#include "sim/world/simulate.h"
#include "verify/cases/case.h"

namespace verify {

/// Returns why an output of a run cannot be put together; "" if all can be. `dtype` is that of the case's
/// setting. A tensor has this dtype, or that of its sums.
std::string check_outputs(const sim::RunReport& report, const std::vector<CaseOutput>& outputs,
                          sim::DType dtype);

/// Returns why a run cannot be judged: the same, or a published tensor that no property would judge; "" if it
/// can be.
std::string check_published(const sim::RunReport& report, const std::vector<CaseOutput>& outputs,
                            sim::DType dtype);

}  // namespace verify
