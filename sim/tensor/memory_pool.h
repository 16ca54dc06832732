#pragma once

/// A pool of memory blocks that are kept and reused: fresh pages cost ten times as much as a copy, and
/// small cases would spend their time in malloc. A pool has lanes, each with its own lock, and a rank
/// always uses the same lane.
///
/// Shapes  a block has at least the bytes asked for, rounded up to one of four size classes per octave,
///         and is aligned to 64 bytes. It contains whatever its last user left.
/// Calls   take and give_back may be called from any thread.
/// Errors  out_of_memory, with the bytes asked for.

#include <array>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "sim/tensor/block_source.h"

namespace sim {

class MemoryPool {
 public:
  static constexpr std::size_t kAlignment = 64;
  static constexpr std::size_t kLanes = 64;

  /// Makes a pool of the memory of this machine.
  MemoryPool();
  explicit MemoryPool(std::unique_ptr<BlockSource> source) : source_(std::move(source)) {}
  ~MemoryPool();
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  std::byte* take(std::size_t bytes, std::size_t lane);
  /// `bytes` and `lane` must be the values that were given to take.
  void give_back(std::byte* block, std::size_t bytes, std::size_t lane);

 private:
  struct Lane {
    std::mutex mutex;
    std::vector<std::vector<std::byte*>>
        free;                       // indexed by size class, grown on first use since most pools are small
    std::vector<std::byte*> slabs;  // small blocks are cut from these slabs
    std::size_t slab_left = 0;
  };
  std::byte* cut_from_slab(Lane& lane, std::size_t bytes);

  std::unique_ptr<BlockSource> source_;
  std::array<Lane, kLanes> lanes_;
};

}  // namespace sim
