#pragma once

/// A fraction of whole numbers, in which references state the constants of an optimizer.

#include <cstdint>

namespace verify::reference {

struct Fraction {
  std::int64_t numerator = 0;
  std::int64_t denominator = 1;
};

}  // namespace verify::reference
