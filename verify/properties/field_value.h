#pragma once

/// Whether an element of the field has a value. One without a value is no number: all of its levels are
/// retired.

#include <cstddef>

#include "sim/base/field.h"

namespace verify {

inline bool has_value(const sim::Field& x) {
  for (std::size_t level = 0; level < sim::kFieldLevels; ++level) {
    if (x.is_live(level)) return true;
  }
  return false;
}

}  // namespace verify
