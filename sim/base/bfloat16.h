#pragma once

/// bfloat16 is the upper half of a float: eight bits of precision, with the exponent range of a float.
///
/// Exact   to_float is exact. to_bfloat16 rounds to nearest, ties to even, as GPUs do. A
///         value that is too large becomes infinity, and a NaN stays a quiet NaN.
/// Source  NVIDIA CUDA math API, __float2bfloat16_rn.

#include <bit>
#include <cmath>
#include <cstdint>

#include "sim/base/host_device.h"

namespace sim {

struct bfloat16 {
  std::uint16_t bits = 0;
  bool operator==(const bfloat16&) const = default;  // compares bits: a NaN equals itself, 0 differs from -0
};

SIM_HOST_DEVICE inline float to_float(bfloat16 value) {
  return std::bit_cast<float>(std::uint32_t{value.bits} << 16);
}

SIM_HOST_DEVICE inline bfloat16 to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const bool is_nan = (bits & 0x7fffffffU) > 0x7f800000U;
  if (is_nan) return {static_cast<std::uint16_t>((bits >> 16) | 0x0040U)};
  // Adds half a unit of the last place kept, or one less when that place is even, so that a tie rounds to
  // even.
  const std::uint32_t half = 0x7fffU + ((bits >> 16) & 1U);
  return {static_cast<std::uint16_t>((bits + half) >> 16)};
}

/// Rounds a double only once: the intermediate float is rounded to odd, so it is never a tie unless the value
/// itself was a tie.
SIM_HOST_DEVICE inline bfloat16 to_bfloat16(double value) {
  const auto nearest = static_cast<float>(value);
  if (double{nearest} == value || value != value) return to_bfloat16(nearest);
  const bool is_away = std::fabs(double{nearest}) > std::fabs(value);
  return to_bfloat16(
      std::bit_cast<float>((std::bit_cast<std::uint32_t>(nearest) - (is_away ? 1U : 0U)) | 1U));
}

}  // namespace sim
