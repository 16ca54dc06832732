#pragma once

/// The elements that one member of a group sends in a ring collective, computed without sim/comm by walking
/// the ring step by step.
///
/// Shapes  a group of n members; member p sends to member p + 1 (modulo n). An all_reduce cuts its elements
///         into n chunks, of which the first count % n have one more.
/// Source  the ring kernels of NCCL: n - 1 steps of reduce-scatter, then n - 1 steps of all-gather.

#include <cstdint>

namespace verify::reference {

inline std::int64_t all_reduce_elements(std::int64_t count, int n, int p) {
  const auto size = [&](int i) {
    const std::int64_t index = (i % n + n) % n;
    return count / n + (index < count % n ? 1 : 0);
  };
  std::int64_t sent = 0;
  for (int step = 1; step < n; ++step) sent += size(p - step);      // reduce-scatter: the chunk received last
  for (int step = 0; step < n - 1; ++step) sent += size(p - step);  // all-gather: its own chunk first
  return sent;
}

}  // namespace verify::reference
