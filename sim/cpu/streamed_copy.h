#pragma once

/// Copies bytes past the caches, for targets that are too large to stay in one. An ordinary store first reads
/// the line that it writes; these do not, and so move two thirds of the bytes.
///
/// Shapes  the source and the target do not overlap. Both may have any alignment; the copy is fastest where
///         they have that of a vector.
/// Calls   other threads see the bytes as after an ordinary copy. A machine that is not x86-64 makes one.

#include <cstddef>
#include <cstdint>

namespace sim {

void streamed_copy(const std::byte* from, std::byte* to, std::int64_t bytes);

}  // namespace sim
