#pragma once

/// The memory that a guest shares with its rank. Elements of tensors pass through it, and frames say where
/// they lie.
///
/// Shapes  offsets and sizes in bytes. The guest makes the segment larger when it needs to, by ftruncate();
///         the rank maps it again when an offset lies beyond what it has mapped.
///         It cannot be made smaller (F_SEAL_SHRINK), so that what is mapped stays there.
/// Calls   a tensor's elements are those in the segment: nothing is copied. A guest that changes them while
///         a call has them changes what the call computes, and nothing else.
/// Errors  guest_memory: a tensor lies outside of the segment or between two elements, or the system does not
///         seal or map it.

#include <cstdint>
#include <memory>

#include "sim/guest/guest_request.h"
#include "sim/tensor/tensor.h"

namespace sim {

class Segment {
 public:
  /// `descriptor` is that of a memory file (memfd_create), which stays the caller's.
  explicit Segment(int descriptor) : descriptor_(descriptor) {}

  /// Returns the tensor that lies in the segment, as one of the device.
  Tensor tensor(Device& device, const GuestTensor& where);

 private:
  class Mapping;
  void map_again();

  int descriptor_;
  std::shared_ptr<const Mapping> mapping_;  // tensors keep older ones
};

}  // namespace sim
