#pragma once

/// A sum of many terms in their order, by one thread of a GPU. The terms are read from memory ahead of the
/// sum, some at a time: the reads wait for memory together, and only the additions wait for each other.

#include <cstdint>

#include "sim/base/host_device.h"

namespace gpu {

/// Calls add(read(0)), add(read(1)), ... add(read(n - 1)), in this order. read(i) has no effects.
template <typename Read, typename Add>
SIM_HOST_DEVICE void in_chain(std::int64_t n, const Read& read, const Add& add) {
  constexpr int kAhead = 16;
  std::int64_t i = 0;
  for (; i + kAhead <= n; i += kAhead) {
    decltype(read(i)) terms[kAhead];
    SIM_UNROLL
    for (int k = 0; k < kAhead; ++k) terms[k] = read(i + k);
    SIM_UNROLL
    for (int k = 0; k < kAhead; ++k) add(terms[k]);
  }
  for (; i < n; ++i) add(read(i));
}

}  // namespace gpu
