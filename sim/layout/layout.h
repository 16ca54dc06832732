#pragma once

/// A layout: every process group of a world, by one of two rule books.
///
///   megatron  RankGenerator with an order string, a dense and an expert grid (megatron_rules.h)
///   legacy    the `mpu` code that the seeds quote: tp, dp, pp, clamped sizes, a split rank (legacy_rules.h)
///
/// Everything is checked before anything is built. Kinds stand in Megatron's creation order; a kind that is
/// only another name for one that exists (intra-dp-cp with one optimizer instance) is absent.
///
/// Calls   call_index numbers the new_group calls of the modelled kinds in the one order in which every rank,
///         member or not, makes them. (Megatron makes further calls for Gloo twins and for the gtp kinds.)
/// Errors  sim::Error; its code is the first rule that broke.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/layout/group_kind.h"
#include "sim/layout/parallel_sizes.h"
#include "sim/layout/rank_grid.h"

namespace sim {

/// A layout that Megatron accepts and some of its consumers then use wrongly.
struct Warning {
  std::string name;
  std::string message;
};

/// Kinds created in one loop of Megatron: for each group of the first kind, that group, then of each further
/// kind the groups that belong to it.
struct CreationBlock {
  std::vector<int> kinds;  // indices into Layout::kinds
};

struct Layout {
  RuleBook rules = RuleBook::megatron;
  std::string order;
  int world_size = 0;  // ranks of the world
  int grid_size = 0;   // ranks of the grid, first_rank and up; less than world_size only when asked for
  int first_rank = 0;
  int tp = 1, cp = 1, dp = 1, pp = 1;  // after clamping, where the rule book clamps
  int ep = 1, etp = 1, edp = 1;
  int instances = 1;  // distributed-optimizer instances
  RankGrid dense;
  RankGrid expert;
  std::vector<GroupKind> kinds;
  std::vector<CreationBlock> creation;
  std::vector<Warning> warnings;

  /// Null when the layout has no such kind.
  const GroupKind* find(std::string_view name) const;
  /// The position of a group's new_group call among all calls.
  int call_index(int kind, int group) const;
  int call_count() const;
};

/// Checks the sizes and builds the layout.
Layout make_layout(const ParallelSizes& sizes, RuleBook rules);

/// Every kind name either rule book can make, in creation order. hcp-L0, hcp-L1, ... stand as "hcp-L*".
std::vector<std::string> all_kind_names();

/// Appends kinds to a layout, one creation block at a time.
class KindList {
 public:
  explicit KindList(Layout& layout) : layout_(layout) {}
  /// A new block whose first kind is this one.
  const GroupKind& lead(GroupKind kind);
  /// One more kind in the block of the latest lead.
  void follow(GroupKind kind);

 private:
  Layout& layout_;
};

}  // namespace sim
