#pragma once

/// Ranks on nodes and GPUs: rank r runs on node r / gpus_per_node, GPU r % gpus_per_node (round-robin inside
/// a node, as launchers number them), and which process groups talk across nodes.
///
/// Source  seed 001; torchrun's numbering.

#include <span>

#include "sim/layout/group_kind.h"

namespace sim {

struct NodePlacement {
  int gpus_per_node = 8;

  int node_of(int rank) const { return rank / gpus_per_node; }
  int gpu_of(int rank) const { return rank % gpus_per_node; }
  bool crosses_node(std::span<const int> members) const;
  /// How many groups of the kind have members on more than one node. O(world).
  int groups_crossing_node(const GroupKind& kind) const;
};

}  // namespace sim
