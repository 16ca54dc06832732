#pragma once

/// The bytes of memory that the tensors of one rank hold now, and the most that they held at once.
///
/// Shapes  the bytes that were asked for, without what the pool rounds them up to.
/// Calls   each storage adds its bytes when it is made and removes them when it ends, on any thread.
/// Exact   At a moment of a rank's own program, the bytes held now depend on the program alone.

#include <atomic>
#include <cstdint>

namespace sim {

class HeldBytes {
 public:
  void add(std::int64_t bytes) {
    const std::int64_t now = now_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    std::int64_t most = most_.load(std::memory_order_relaxed);
    while (most < now && !most_.compare_exchange_weak(most, now, std::memory_order_relaxed)) {
    }
  }
  void remove(std::int64_t bytes) { now_.fetch_sub(bytes, std::memory_order_relaxed); }

  std::int64_t now() const { return now_.load(std::memory_order_relaxed); }
  std::int64_t most() const { return most_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::int64_t> now_ = 0;
  std::atomic<std::int64_t> most_ = 0;
};

}  // namespace sim
