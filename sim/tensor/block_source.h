#pragma once

/// Where a memory pool's blocks come from: the memory of this machine, or a GPU's.
///
/// Calls   from any thread.

#include <cstddef>

namespace sim {

class BlockSource {
 public:
  virtual ~BlockSource() = default;
  /// Aligned to MemoryPool::kAlignment. Refuses what it does not have.
  virtual std::byte* take(std::size_t bytes) = 0;
  virtual void give_back(std::byte* block) = 0;
};

}  // namespace sim
