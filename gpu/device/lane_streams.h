#pragma once

/// The streams of a GPU, one for each lane of its memory pool. Ranks that share a lane share its stream.
///
/// Calls   from any thread. A stream, and the vendor's handle for it, are made when they are first asked for.

#include <array>
#include <cstddef>
#include <mutex>

#include "gpu/device/kernels.h"
#include "gpu/device/runtime.h"
#include "sim/tensor/memory_pool.h"

namespace gpu {

class LaneStreams {
 public:
  explicit LaneStreams(int ordinal) : ordinal_(ordinal) { open_gpu(ordinal); }
  ~LaneStreams();
  LaneStreams(const LaneStreams&) = delete;
  LaneStreams& operator=(const LaneStreams&) = delete;

  int ordinal() const { return ordinal_; }
  Stream* stream(std::size_t lane);
  Vendor* vendor(std::size_t lane);

 private:
  int ordinal_;
  std::mutex mutex_;
  std::array<Stream*, sim::MemoryPool::kLanes> streams_ = {};
  std::array<Vendor*, sim::MemoryPool::kLanes> vendors_ = {};
};

}  // namespace gpu
