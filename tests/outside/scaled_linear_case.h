#pragma once

/// ScaledLinear as a case of check: what it is given, where its tensors lie, what it calls, and the same on
/// one device.

#include <verify/cases/case.h>

namespace outside {

/// With `planted`, of a layer that forgets its all_reduce.
std::unique_ptr<verify::Case> scaled_linear_case(bool planted);

}  // namespace outside
