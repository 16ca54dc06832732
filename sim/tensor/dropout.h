#pragma once

/// Dropout whose mask is a function of (stream, index): nothing is stored, and backward is the same call on
/// the gradient.
///
/// Calls   a stream of its own for each use and step. Ranks that hold a whole tensor use one stream, and so
///         drop the same elements; ranks that hold shards use a stream each.
/// Errors  bad_dropout: a probability that is not from 0 to below 1; those of checks.h.

#include "sim/base/keyed_random.h"
#include "sim/tensor/device.h"

namespace sim {

Tensor dropout(const Tensor& x, const KeyedRandom& stream, Ratio drop);

}  // namespace sim
