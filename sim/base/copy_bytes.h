#pragma once

/// Copies bytes between buffers that do not overlap, as std::memcpy does.
///
/// Calls   above 2 KiB, the memcpy of glibc 2.36 is one string instruction, which on some processors is slow
///         unless both buffers lie alike: on an AMD EPYC it copied 2.2 bytes a nanosecond, and vectors 40 to
///         80. Buffers of less than kManyBytes are therefore copied in pieces that are smaller. In large ones
///         memory decides.

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace sim {

inline void copy_bytes(const std::byte* from, std::byte* to, std::size_t bytes) {
  constexpr std::size_t kPiece = 1024, kManyBytes = std::size_t{1} << 20;
  if (bytes == 0 || from == to) return;
  if (bytes >= kManyBytes) {
    std::memcpy(to, from, bytes);
    return;
  }
  for (std::size_t done = 0; done < bytes; done += kPiece)
    std::memcpy(to + done, from + done, std::min(kPiece, bytes - done));
}

}  // namespace sim
