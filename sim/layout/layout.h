#pragma once

/// A layout: all process groups of a world, made by one of two rule books.
///
///   megatron  RankGenerator with an order string, and a dense and an expert grid (megatron_rules.h)
///   legacy    the old `mpu` code of Megatron-LM: tp, dp and pp, clamped sizes, a split rank
///             (legacy_rules.h)
///
/// Everything is checked before anything is built. Kinds are listed in the order in which Megatron
/// creates them. A kind that would only be another name for an existing kind (intra-dp-cp with one
/// optimizer instance) is absent.
///
/// Calls   calls_of numbers the new_group calls of the modelled kinds. Every rank, member or not, makes
///         these calls in one and the same order. (Megatron makes further calls for the Gloo twins of
///         groups and for the gtp kinds.)
/// Errors  throws sim::Error, whose code is that of the first rule that the sizes break.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/layout/group_kind.h"
#include "sim/layout/parallel_sizes.h"
#include "sim/layout/rank_grid.h"
#include "sim/layout/warning.h"

namespace sim {

/// The kinds that Megatron creates in one loop. For each group of the first kind, the loop creates that
/// group and then, for each further kind, the groups that belong to it.
struct CreationBlock {
  std::vector<int> kinds;  // indices into Layout::kinds
};

/// The positions of the new_group calls of one kind among all calls. `each` groups of the kind are
/// created for every group of the first kind of its block.
struct CallSequence {
  int first = 0;   // the call that creates group 0
  int each = 1;    // groups of this kind per group of the block's first kind
  int period = 1;  // calls of the whole block per group of its first kind
  int call_of(int group) const { return first + group / each * period + group % each; }
};

struct Layout {
  RuleBook rules = RuleBook::megatron;
  std::string order;
  int world_size = 0;  // ranks of the world
  int grid_size = 0;   // the grid's ranks, from first_rank on; fewer than world_size only if asked for
  int first_rank = 0;
  int tp = 1, cp = 1, dp = 1, pp = 1;  // after clamping, if the rule book clamps
  int ep = 1, etp = 1, edp = 1;
  int instances = 1;                                   // distributed-optimizer instances
  std::vector<std::int64_t> embedding_pipeline_ranks;  // as in ParallelSizes
  RankGrid dense;
  RankGrid expert;
  std::vector<GroupKind> kinds;
  std::vector<CreationBlock> creation;
  std::vector<Warning> warnings;

  /// Returns null when the layout has no such kind.
  const GroupKind* find(std::string_view name) const;
  /// Returns which of all new_group calls create the groups of a kind. Every rank makes all calls, in
  /// this order.
  CallSequence calls_of(int kind) const;
  int call_count() const;
};

/// Checks the sizes and builds the layout.
Layout make_layout(const ParallelSizes& sizes, RuleBook rules);

}  // namespace sim
