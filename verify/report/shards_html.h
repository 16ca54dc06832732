#pragma once

/// The page of gradient buffers: their buckets with their parameters, the owners of their parts, and what a
/// step of ZeRO-1 does with them.
///
/// Shapes  The first kMostDrawnBuckets buckets of a buffer are drawn, and a sentence says so. `names` is
///         empty, or has the name of each parameter.
/// Exact   The same buffers make the same bytes.

#include <span>
#include <string>
#include <vector>

#include "sim/optimizer/buffer_layout.h"

namespace verify {

inline constexpr std::size_t kMostDrawnBuckets = 32;

/// A buffer and what is said of it: "chunk 1, reduced over dp-cp", or nothing of the only one.
struct ShownBuffer {
  std::string title;
  sim::BufferLayout layout;
  std::vector<std::string> names = {};
};

std::string shards_html(std::span<const ShownBuffer> buffers);

}  // namespace verify
