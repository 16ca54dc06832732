#pragma once

/// Activation functions, element by element.
///
/// Exact   a fixed sequence of rounded operations (kernel_arithmetic.h); in the field, a keyed function.
/// Errors  those of checks.h.

#include "sim/tensor/device.h"

namespace sim {

Tensor activate(Activation function, const Tensor& x);
/// Returns grad f'(x).
Tensor activate_backward(Activation function, const Tensor& x, const Tensor& grad);

}  // namespace sim
