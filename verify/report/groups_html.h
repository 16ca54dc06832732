#pragma once

/// The page of a layout's groups: a grid of ranks for each kind, node by node, in which ranks of one colour
/// are a group; with what the groups send, and when (group_kinds.tsv).
///
/// Shapes  Kinds whose groups have one rank are left out. Of worlds above kMostDrawnRanks ranks the first
///         nodes are drawn, and a sentence says so.
/// Exact   The same layout makes the same bytes.

#include <string>
#include <vector>

#include "sim/layout/layout.h"
#include "sim/layout/node_placement.h"

namespace verify {

std::string groups_html(const sim::Layout& layout, const sim::NodePlacement& nodes,
                        const std::vector<const sim::GroupKind*>& kinds);

}  // namespace verify
