#pragma once

/// The kinds of process groups that the rule books can make: one row for each, in the order in which
/// Megatron creates them. A row says which axes of which grid a group of the kind joins, whether it keeps
/// all of the ranks that these axes join, in which layouts the kind exists, and what must hold between it
/// and other kinds. A new kind is a row; a new way to cut groups is a Cut and its line in kind_table.cpp.
///
///   cut                  ranks of a group                             the kind exists
///   whole                all ranks that the axes join                 in every layout
///   instance             a slice for one optimizer instance           with several instances
///   across_instances     the ranks of equal place in the slices       with several instances
///   ranks_of_instance    the listing's slice of world / instances     in every layout
///   level                one kind for each hierarchical level of cp   for each level given
///   embedding            picked pipeline ranks: KindSizes             in every layout
///   position_embedding   picked pipeline ranks: KindSizes             in every layout
///
/// Shapes  sizes and positions count ranks.
/// Source  Megatron-LM parallel_state.py at d98e8a64ddf3 and, for the rule book legacy,
///         megatron/mpu/initialize.py at 2fadaa50a5.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/layout/layout.h"

namespace sim {

enum class Grid : std::uint8_t { dense, expert };
enum class Cut : std::uint8_t {
  whole,
  instance,
  across_instances,
  ranks_of_instance,
  level,
  embedding,
  position_embedding
};

struct KindRow {
  std::string_view name;         // a name that ends with '*' stands for one kind a level: hcp-L0, hcp-L1, ...
  std::string_view description;  // Megatron's name of the groups, as PyTorch's dumps show it; '*' as above
  Grid grid = Grid::dense;
  std::vector<Axis> axes;
  Cut cut = Cut::whole;
  bool in_legacy = false;         // whether the rule book legacy makes the kind, too
  bool starts_loop = true;        // whether Megatron creates the kind in a loop of its own (CreationBlock)
  std::string_view same_as = {};  // the kind that has the same groups in a layout without this one
  /// Kinds of which every group shares exactly one rank with every group of this kind that it meets. In a
  /// row of levels, this holds for the first level.
  std::vector<std::string_view> orthogonal_to = {};
  /// Kinds that complement this one: they are orthogonal to it, and the sizes of both multiply to the size
  /// of the grid. This holds in layouts in which every axis with more than one rank belongs to one of both.
  std::vector<std::string_view> complements = {};
  /// Kinds whose groups each lie in one group of this kind.
  std::vector<std::string_view> unites = {};

  /// Whether a kind with this name belongs to the row.
  bool describes(std::string_view kind) const;
  /// Returns the name of the row's kind, or in a row of levels that of the first level.
  std::string first_name() const;
  /// Returns Megatron's description of the groups of a kind of this row.
  std::string description_of(std::string_view kind) const;
  /// Whether every rank of the grid is in a group.
  bool covers_all_ranks() const { return cut != Cut::embedding && cut != Cut::position_embedding; }
};

const std::vector<KindRow>& kind_table();

/// Returns the row whose kind has this name (hcp-L1 has the row of the levels), or null.
const KindRow* find_kind(std::string_view name);

/// Returns the kind whose groups Megatron describes so ("TENSOR_MODEL_PARALLEL_GROUP": "tp"); "" where none
/// has this description.
std::string kind_described_as(std::string_view description);

/// Returns the names of all rows, in creation order; "hcp-L*" stands for hcp-L0, hcp-L1, ...
std::vector<std::string> all_kind_names();

/// The sizes of the kinds that are not in the table: sizes that a user gave, and the ranks of a pipeline
/// that hold embeddings.
struct KindSizes {
  std::vector<int> hierarchical_context_parallel_sizes;  // empty: no kinds of levels
  std::vector<int> embedding;                            // pipeline ranks, ascending
  std::vector<int> position_embedding;                   // pipeline ranks, ascending
};

/// Fills the kinds and the creation blocks of a layout whose grids and sizes are complete.
void add_kinds(const KindSizes& sizes, Layout& layout);

}  // namespace sim
