#pragma once

/// ParallelNorm, forward and backward, with and without sequence parallelism.

#include <memory>

#include "verify/case.h"

namespace verify {

std::unique_ptr<Case> parallel_norm_case();

}  // namespace verify
