#pragma once

/// The memory that a guest shares with its rank. Elements of tensors pass through it, and frames say where
/// they lie.
///
/// Shapes  offsets and sizes in bytes. The guest makes the segment larger when it needs to, by ftruncate();
///         the rank maps it again when an offset lies beyond what it has mapped.
///         It cannot be made smaller (F_SEAL_SHRINK), so that what is mapped stays there.
/// Errors  guest_memory: a part lies outside of the segment, or the system does not seal or map it.

#include <cstddef>
#include <cstdint>
#include <span>

namespace sim {

class Segment {
 public:
  /// `descriptor` is that of a memory file (memfd_create), which stays the caller's.
  explicit Segment(int descriptor) : descriptor_(descriptor) {}
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  /// Returns a part of the segment, which is valid until the next call of this function.
  std::span<std::byte> part(std::int64_t offset, std::int64_t bytes);

 private:
  void map_again();

  int descriptor_;
  std::span<std::byte> mapped_;
};

}  // namespace sim
