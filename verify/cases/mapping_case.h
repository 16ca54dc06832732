#pragma once

/// The mapping operators: each moves, sums or cuts one whole, and its conjugate does so with the gradient. A rank's tensors are
/// placed as the operator's table says; the whole is the same before and after.

#include <memory>
#include <vector>

#include "verify/case.h"

namespace verify {

std::vector<std::unique_ptr<Case>> mapping_cases();

}  // namespace verify
