#pragma once

/// A layout: every process group of a world, by one of two rule books.
///
///   megatron  RankGenerator with an order string, a dense and an expert grid (megatron_rules.h)
///   legacy    the `mpu` code that the seeds quote: tp, dp, pp, clamped sizes, a split rank (legacy_rules.h)
///
/// Everything is checked before anything is built. Kinds stand in Megatron's creation order; a kind that is
/// only another name for one that exists (intra-dp-cp with one optimizer instance) is absent.
///
/// Calls   calls_of numbers the new_group calls of the modelled kinds in the one order in which every rank,
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
#include "sim/layout/warning.h"

namespace sim {

/// Kinds created in one loop of Megatron: for each group of the first kind, that group, then of each further
/// kind the groups that belong to it.
struct CreationBlock {
  std::vector<int> kinds;  // indices into Layout::kinds
};

/// The new_group calls of one kind among those of its block: `each` calls for every group that leads the
/// block.
struct CallSequence {
  int first = 0;   // the call of group 0
  int each = 1;    // groups of this kind for one group of the block's first kind
  int period = 1;  // calls of the whole block for one group of its first kind
  int call_of(int group) const { return first + group / each * period + group % each; }
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
  /// The calls of a kind: which of all new_group calls creates a group. Every rank makes all calls, in this
  /// order.
  CallSequence calls_of(int kind) const;
  int call_count() const;
};

/// Checks the sizes and builds the layout.
Layout make_layout(const ParallelSizes& sizes, RuleBook rules);

/// Every kind name either rule book can make, in creation order. hcp-L0, hcp-L1, ... stand as "hcp-L*".
std::vector<std::string> all_kind_names();

/// One of these names, hcp-L0, hcp-L1, ... included.
bool is_kind_name(const std::string& name);

/// The kind whose groups join these axes of a grid.
GroupKind token_kind(const RankGrid& grid, const char* name, const std::vector<Axis>& axes);

/// Appends kinds to a layout, one creation block at a time.
class KindList {
 public:
  explicit KindList(Layout& layout) : layout_(layout) {}
  /// A new block whose first kind is this one.
  void lead(const GroupKind& kind);
  /// One more kind in the block of the latest lead.
  void follow(const GroupKind& kind);

 private:
  Layout& layout_;
};

}  // namespace sim
