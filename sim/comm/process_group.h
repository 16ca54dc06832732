#pragma once

/// A process group: a list of ranks of the world in a fixed order, and their placement on nodes.
///
/// Shapes  members are global ranks; the place of a member is its position in the list.
/// Exact   two groups are the same if and only if their kind and index are equal. Kind and index are the same
///         in every run.

#include <string>
#include <vector>

namespace sim {

struct ProcessGroup {
  std::string kind;          // "tp", "world", or the name given to new_group
  int index = 0;             // number of the group among the groups of its kind
  std::vector<int> members;  // global ranks, in the group's order
  int gpus_per_node = 8;     // rank r runs on node r / gpus_per_node

  int size() const { return static_cast<int>(members.size()); }
  int rank_at(int place) const { return members[static_cast<std::size_t>(place)]; }
  /// Returns the place of a member of this group; `rank` must be one.
  int place_of(int rank) const;
  bool on_one_node(int place_a, int place_b) const {
    return rank_at(place_a) / gpus_per_node == rank_at(place_b) / gpus_per_node;
  }
};

/// Returns "tp[3]". Two groups are the same if and only if these texts are equal.
std::string short_text_of(const ProcessGroup& group);

/// Returns "tp[3] = {12, 13, 14, 15}". Long lists are shortened.
std::string text_of(const ProcessGroup& group);

/// Returns "ranks 0, 1, 5". Long lists are shortened.
std::string text_of_ranks(const std::vector<int>& ranks);

}  // namespace sim
