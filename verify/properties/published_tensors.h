#pragma once

/// What a run published, against what its case declares. A run can only be judged if every declared tensor is
/// there, once on each rank that has a part of it, in the dtype of the case and in parts that fit together,
/// and if nothing else was published, because nobody would look at it.
///
/// Exact   declared tensors are looked at first, in the order of outputs(), then what else ranks published,
///         in the order of ranks and names. The first difference is returned.

#include <string>
#include <vector>

#include "sim/world/simulate.h"
#include "verify/cases/case.h"

namespace verify {

/// Returns why an output of a run cannot be put together; "" if all can be. `dtype` is that of the case's
/// setting. A tensor has this dtype, or that of its sums.
std::string check_outputs(const sim::RunReport& report, const std::vector<CaseOutput>& outputs,
                          sim::DType dtype);

/// Returns why a run cannot be judged: the same, or a tensor that nobody would judge; "" if it can be.
std::string check_published(const sim::RunReport& report, const std::vector<CaseOutput>& outputs,
                            sim::DType dtype);

}  // namespace verify
