#pragma once

/// The case of data-parallel training with the distributed optimizer (ZeRO-1), and without it.

#include "verify/case.h"

namespace verify {

std::unique_ptr<Case> distributed_optimizer_case();

}  // namespace verify
