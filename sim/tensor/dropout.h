#pragma once

/// Dropout whose mask is a function of (stream, index). Nothing is stored, and backward is the same call
/// on the gradient.
///
/// Calls   use a separate stream for each use and step. Ranks that all hold the whole tensor use one
///         stream, and so drop the same elements. Ranks that hold shards use one stream each.
/// Errors  bad_dropout: a probability that is not in [0, 1); those of checks.h.

#include "sim/base/keyed_random.h"
#include "sim/tensor/device.h"

namespace sim {

Tensor dropout(const Tensor& x, const KeyedRandom& stream, Ratio drop);

}  // namespace sim
