#pragma once

/// The splits that make the groups of a layout out of the world's communicator: one split for each kind of
/// group, in the order of the layout's kinds. Every rank takes part in every split, as a member of one of its
/// groups or of none, so all ranks make the same sequence of calls.
///
/// Shapes  colors and keys, by global rank: the color is the number of the rank's group, or kNoColor; the key
///         is its place in the group.
/// Calls   Kinds whose groups have one rank need no split: a group of one is the identity (communicator.h).
/// Exact   The splits are a function of the layout only. The groups of a kind have the members of the layout,
///         in its order.
/// Source  NCCL 2.28.9 init.cc: ncclCommSplit orders by key.

#include <string>
#include <vector>

#include "sim/layout/layout.h"

namespace gpu {

inline constexpr int kNoColor = -1;

struct NcclSplit {
  std::string kind;
  std::vector<int> colors;
  std::vector<int> keys;
};

/// Returns the splits of a layout, whose first rank must be 0.
std::vector<NcclSplit> nccl_splits(const sim::Layout& layout);

}  // namespace gpu
