#pragma once

/// Converts the bytes of a tensor on the host to values: floats of any width to doubles, which hold them
/// exactly, and elements of the field.

#include <cstddef>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

#include "sim/base/bfloat16.h"
#include "sim/tensor/dtype.h"

namespace verify {

/// Calls visit with a scalar of the type that a tensor of this dtype holds. It is one whose elements are
/// values of type Value: Field, or double for f64, f32 and bf16.
template <typename Value, typename Visit>
void with_scalar_of(sim::DType dtype, const Visit& visit) {
  if constexpr (std::is_same_v<Value, sim::Field>) {
    visit(sim::Field{});
  } else {
    if (dtype == sim::DType::f64) return visit(double{});
    if (dtype == sim::DType::f32) return visit(float{});
    visit(sim::bfloat16{});
  }
}

/// Returns element i of the bytes of a tensor.
template <typename Scalar>
auto value_at(const std::byte* bytes, std::size_t i) {
  Scalar element;
  std::memcpy(static_cast<void*>(&element), bytes + i * sizeof element, sizeof element);
  if constexpr (std::is_same_v<Scalar, sim::bfloat16>) {
    return double{sim::to_float(element)};
  } else if constexpr (std::is_same_v<Scalar, float>) {
    return double{element};
  } else {
    return element;
  }
}

inline std::vector<sim::Field> fields_of(std::span<const std::byte> bytes) {
  std::vector<sim::Field> values(bytes.size() / sizeof(sim::Field));
  if (!bytes.empty()) std::memcpy(static_cast<void*>(values.data()), bytes.data(), bytes.size());
  return values;
}

}  // namespace verify
