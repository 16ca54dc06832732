#pragma once

/// Scalars of any dtype on which kernels are tested: floats with full mantissas and many magnitudes, i32 with
/// all 32 bits, and field elements with retired levels.
///
/// Calls   drawn_scalars is a pure function of (random, index), for thousands of scalars. any_dtype draws
///         inside a property.

#include <cmath>
#include <cstdint>
#include <limits>
#include <rapidcheck.h>
#include <type_traits>
#include <vector>

#include "sim/base/field.h"
#include "sim/base/keyed_random.h"
#include "sim/tensor/dtype.h"

namespace test {

inline sim::DType any_dtype() {
  return *rc::gen::element(sim::DType::f64, sim::DType::f32, sim::DType::bf16, sim::DType::field,
                           sim::DType::i32);
}

template <typename Scalar>
Scalar drawn_scalar(const sim::KeyedRandom& random, std::uint64_t index) {
  if constexpr (std::is_same_v<Scalar, std::int32_t>) {
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(random.bits(index)));
  } else if constexpr (std::is_same_v<Scalar, sim::Field>) {
    sim::Field value;
    const std::uint32_t retired = random.named("retired").below(index, 8);
    for (std::size_t level = 0; level < sim::kFieldLevels; ++level) {
      const auto prime = static_cast<std::uint32_t>(sim::kFieldPrimes[level]);
      value.residues[level] = level + 5 < retired ? std::numeric_limits<double>::quiet_NaN()
                                                  : random.below(index * sim::kFieldLevels + level, prime);
    }
    return value;
  } else {
    const int exponent = static_cast<int>(random.named("exponent").below(index, 12)) - 6;
    const double value = std::ldexp(2 * random.uniform(index) - 1, exponent);
    if constexpr (std::is_same_v<Scalar, sim::bfloat16>) {
      return sim::to_bfloat16(static_cast<float>(value));
    } else {
      return static_cast<Scalar>(value);
    }
  }
}

template <typename Scalar>
std::vector<Scalar> drawn_scalars(const sim::KeyedRandom& random, std::int64_t count) {
  std::vector<Scalar> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = drawn_scalar<Scalar>(random, i);
  return values;
}

/// Returns the bytes in memory, which is what "bit for bit" compares.
template <typename Scalar>
std::vector<std::byte> bits_of(const std::vector<Scalar>& values) {
  const auto* first = reinterpret_cast<const std::byte*>(values.data());
  return {first, first + values.size() * sizeof(Scalar)};
}

}  // namespace test
