#pragma once

/// The MLP of a transformer layer, forward and backward: plain and gated, each activation.

#include <memory>

#include "verify/case.h"

namespace verify {

std::unique_ptr<Case> mlp_case();

}  // namespace verify
