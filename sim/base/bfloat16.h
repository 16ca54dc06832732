#pragma once

/// bfloat16: the upper half of a float. Eight bits of precision, the exponent range of a float.
///
/// Exact   to_float is exact. to_bfloat16 rounds to the nearest, ties to even, as GPUs do on every hop; a
///         value too large becomes infinity, a NaN stays a quiet NaN.
/// Source  NVIDIA CUDA math API, __float2bfloat16_rn.

#include <bit>
#include <cmath>
#include <cstdint>

#include "sim/base/host_device.h"

namespace sim {

struct bfloat16 {
  std::uint16_t bits = 0;
  bool operator==(const bfloat16&) const = default;  // of the bits: a NaN equals itself, 0 differs from -0
};

SIM_HOST_DEVICE inline float to_float(bfloat16 value) {
  return std::bit_cast<float>(std::uint32_t{value.bits} << 16);
}

SIM_HOST_DEVICE inline bfloat16 to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const bool is_nan = (bits & 0x7fffffffU) > 0x7f800000U;
  if (is_nan) return {static_cast<std::uint16_t>((bits >> 16) | 0x0040U)};
  // Half a unit of the last place kept, less one when that place is even: a tie then rounds to even.
  const std::uint32_t half = 0x7fffU + ((bits >> 16) & 1U);
  return {static_cast<std::uint16_t>((bits + half) >> 16)};
}

/// Rounds once: a float on the way is rounded to odd, so that it never is a tie that the value was not.
SIM_HOST_DEVICE inline bfloat16 to_bfloat16(double value) {
  const auto nearest = static_cast<float>(value);
  if (double{nearest} == value || value != value) return to_bfloat16(nearest);
  const bool is_away = std::fabs(double{nearest}) > std::fabs(value);
  return to_bfloat16(
      std::bit_cast<float>((std::bit_cast<std::uint32_t>(nearest) - (is_away ? 1U : 0U)) | 1U));
}

}  // namespace sim
