#pragma once

/// The largest divisor of a number that does not exceed another one: how a drawn size becomes one that
/// divides the world.

#include <algorithm>
#include <cstdint>

namespace verify {

inline int largest_divisor(std::int64_t of, std::int64_t most) {
  auto divisor = static_cast<int>(std::clamp<std::int64_t>(most, 1, of));
  while (of % divisor != 0) --divisor;
  return divisor;
}

}  // namespace verify
