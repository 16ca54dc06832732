#pragma once

/// How the groups of a layout are made of the world's communicator: one split for each kind, in the order of
/// the layout's kinds. Since each rank takes part in each split, as a member of one of its groups or of none,
/// all ranks make the same sequence.
///
/// Shapes  colors and keys by global rank: the number of the rank's group, or kNoColor; its place in the
///         group.
/// Calls   kinds whose groups are of one rank have no split: a group of one is the identity (communicator.h).
/// Exact   a function of the layout alone; groups of a kind have the members of the layout, in its order.
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

/// Of a layout whose first rank is 0.
std::vector<NcclSplit> nccl_splits(const sim::Layout& layout);

}  // namespace gpu
