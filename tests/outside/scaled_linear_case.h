#pragma once

/// ScaledLinear as a case of check: its inputs, where its tensors lie, the calls it makes, and the same
/// computation on one device.

#include <verify/cases/case_inputs.h>

namespace outside {

/// Returns the case. With `planted`, its layer forgets the all_reduce.
std::unique_ptr<verify::Case> scaled_linear_case(bool planted);

}  // namespace outside
