#pragma once

/// Division as Python divides whole numbers: the quotient is rounded towards minus infinity.

#include <cstdint>
#include <optional>

namespace verify {

/// Returns the quotient; nothing where a number is not known, and for a division by zero.
inline std::optional<std::int64_t> floored(std::optional<std::int64_t> dividend,
                                           std::optional<std::int64_t> divisor) {
  if (!dividend || !divisor || *divisor == 0) return std::nullopt;
  const std::int64_t quotient = *dividend / *divisor;
  const bool is_inexact = *dividend % *divisor != 0;
  return quotient - (is_inexact && (*dividend < 0) != (*divisor < 0) ? 1 : 0);
}

}  // namespace verify
