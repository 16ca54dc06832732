#pragma once

/// Self-attention, forward and backward: heads of their own, grouped queries, fewer groups than ranks; causal or not, with and
/// without rotary positions.

#include <memory>

#include "verify/case.h"

namespace verify {

std::unique_ptr<Case> self_attention_case();

}  // namespace verify
