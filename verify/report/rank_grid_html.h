#pragma once

/// The ranks of a layout node by node. Each has its coordinates on the dense grid, and the colour of its tp
/// group.
///
/// Shapes  all ranks of a world of up to kMostDrawnRanks ranks are drawn. Of a larger world the first nodes
///         are drawn, and a sentence says so.

#include <string>

#include "sim/layout/layout.h"
#include "sim/layout/node_placement.h"

namespace verify {

inline constexpr int kMostDrawnRanks = 512;

std::string rank_grid_html(const sim::Layout& layout, const sim::NodePlacement& nodes);

}  // namespace verify
