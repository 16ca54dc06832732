#pragma once

/// The source from which a memory pool takes its blocks: the memory of this machine, or of a GPU.
///
/// Calls   from any thread.

#include <cstddef>

namespace sim {

class BlockSource {
 public:
  virtual ~BlockSource() = default;
  /// Returns a block aligned to MemoryPool::kAlignment. Refuses if it has no such memory left.
  virtual std::byte* take(std::size_t bytes) = 0;
  virtual void give_back(std::byte* block) = 0;
};

}  // namespace sim
