#pragma once

/// What the tensors are for that a program makes. A device that accounts for memory asks when a tensor is
/// made, and remembers the answer while the tensor exists.
///
/// Calls   none. The mark holds for the thread, within which no rank waits.

#include <array>
#include <cstddef>

namespace sim {

enum class MemoryUse { working, parameters, gradients, optimizer };

inline constexpr std::array<const char*, 4> kMemoryUseNames = {"working", "parameters", "gradients",
                                                               "optimizer"};

/// While this object lives, tensors that the thread makes are for one use. Without one, they are working
/// memory: activations, gradients of activations, and buffers of calls.
class MadeFor {
 public:
  explicit MadeFor(MemoryUse use) : before_(now_) { now_ = use; }
  ~MadeFor() { now_ = before_; }
  MadeFor(const MadeFor&) = delete;
  MadeFor& operator=(const MadeFor&) = delete;

  static MemoryUse now() { return now_; }

 private:
  static inline thread_local MemoryUse now_ = MemoryUse::working;
  MemoryUse before_;
};

}  // namespace sim
