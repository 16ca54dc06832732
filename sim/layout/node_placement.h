#pragma once

/// The placement of ranks on nodes and GPUs. Rank r runs on node r / gpus_per_node and on GPU r %
/// gpus_per_node, as launchers number them (round-robin inside a node). It also tells which process
/// groups communicate across nodes.
///
/// Source  the numbering of ranks by torchrun.

#include <span>

#include "sim/layout/group_kind.h"

namespace sim {

struct NodePlacement {
  int gpus_per_node = 8;

  int node_of(int rank) const { return rank / gpus_per_node; }
  int gpu_of(int rank) const { return rank % gpus_per_node; }
  bool crosses_node(std::span<const int> members) const;
  /// Returns how many groups of the kind have members on more than one node. O(world).
  int groups_crossing_node(const GroupKind& kind) const;
};

}  // namespace sim
