#pragma once

/// The ranks of a layout node by node, each with its coordinates on the dense grid, its tp group in colour.
///
/// Shapes  all ranks of a world of up to kMostDrawnRanks; of a larger one the first nodes, and a sentence
///         that says so.

#include <string>

#include "sim/layout/layout.h"
#include "sim/layout/node_placement.h"

namespace verify {

inline constexpr int kMostDrawnRanks = 512;

std::string rank_grid_html(const sim::Layout& layout, const sim::NodePlacement& nodes);

}  // namespace verify
