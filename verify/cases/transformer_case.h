#pragma once

/// A whole transformer layer, forward and backward, with every parameter's gradient.

#include <memory>

#include "verify/case.h"

namespace verify {

std::unique_ptr<Case> transformer_layer_case();

}  // namespace verify
