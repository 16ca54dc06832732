#pragma once

/// The page of a gradient buffer: its buckets with their parameters, the owners of their parts, and what a
/// step of ZeRO-1 does with them.
///
/// Shapes  The first kMostDrawnBuckets buckets are drawn, and a sentence says so. `names` is empty, or has
///         the name of each parameter.
/// Exact   The same buffer makes the same bytes.

#include <string>
#include <vector>

#include "sim/optimizer/buffer_layout.h"

namespace verify {

inline constexpr std::size_t kMostDrawnBuckets = 32;

std::string shards_html(const sim::BufferLayout& layout, const std::vector<std::string>& names);

}  // namespace verify
