#pragma once

/// The loops of a device over elements in the memory of this machine, for the functions that an author writes
/// (element_function.h), in f64, f32 and bf16.

#include <cstdint>

#include "sim/tensor/element_function.h"
#include "sim/tensor/float_arithmetic.h"

namespace sim {

/// Sets out(i) = f(x(i)).
template <typename Scalar>
void apply_to_floats(const ElementFunction& function, const Scalar* x, Scalar* out, std::int64_t count) {
  const Arithmetic<Scalar> number;
  const auto& value = function.value<typename Arithmetic<Scalar>::Wide>();
  for (std::int64_t i = 0; i < count; ++i) out[i] = number.store(value(number.load(x[i])));
}

/// Sets out(i) = grad(i) f'(x(i)).
template <typename Scalar>
void apply_backward_to_floats(const ElementFunction& function, const Scalar* x, const Scalar* grad,
                              Scalar* out, std::int64_t count) {
  const Arithmetic<Scalar> number;
  const auto& derivative = function.derivative<typename Arithmetic<Scalar>::Wide>();
  for (std::int64_t i = 0; i < count; ++i)
    out[i] = number.store(number.load(grad[i]) * derivative(number.load(x[i])));
}

}  // namespace sim
