#pragma once

/// float16 is the half-precision float of IEEE 754: eleven bits of precision and five of exponent.
///
/// Exact   to_float is exact. to_float16 rounds to nearest, ties to even, as GPUs do. A value that is too
///         large becomes infinity, a tiny one a subnormal number or zero, and a NaN stays a quiet NaN.
/// Source  IEEE 754-2019, binary16.

#include <bit>
#include <cstdint>

#include "sim/base/host_device.h"

namespace sim {

struct float16 {
  std::uint16_t bits = 0;
  bool operator==(const float16&) const = default;  // compares bits: a NaN equals itself, 0 differs from -0
};

SIM_HOST_DEVICE inline float to_float(float16 value) {
  const std::uint32_t sign = std::uint32_t{value.bits & 0x8000U} << 16;
  const std::uint32_t rest = value.bits & 0x7fffU;
  if (rest < 0x0400U) {  // zero and subnormal numbers, in units of 2^-24
    const float size = static_cast<float>(rest) * 0x1p-24F;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(size) | sign);
  }
  const std::uint32_t exponent_change = rest < 0x7c00U ? 127U - 15U : 255U - 31U;
  return std::bit_cast<float>(sign | ((rest << 13) + (exponent_change << 23)));
}

SIM_HOST_DEVICE inline float16 to_float16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000U;
  const std::uint32_t size = bits & 0x7fffffffU;
  if (size > 0x7f800000U) return {static_cast<std::uint16_t>(sign | 0x7e00U | ((size >> 13) & 0x1ffU))};
  if (size >= 0x477ff000U) return {static_cast<std::uint16_t>(sign | 0x7c00U)};  // from 65,520 on
  if (size < 0x38800000U) {
    // Below 2^-14. The sum with 0.5 has a last place of 2^-24, which is the subnormals' unit.
    const float sum = std::bit_cast<float>(size) + 0.5F;
    return {static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(sum) - 0x3f000000U))};
  }
  // Adds half a unit of the last place kept, or one less when that place is even, so that a tie rounds to
  // even.
  const std::uint32_t half = 0xfffU + ((size >> 13) & 1U);
  return {static_cast<std::uint16_t>(sign | ((size + half - (112U << 23)) >> 13))};
}

}  // namespace sim
