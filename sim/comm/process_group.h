#pragma once

/// A process group: some ranks of the world in a stated order, and where they stand on nodes.
///
/// Shapes  members: global ranks; a place is a position among them.
/// Exact   two groups are the same iff kind and index are; both are stable from run to run.

#include <string>
#include <vector>

namespace sim {

struct ProcessGroup {
  std::string kind;          // "tp", "world", or the name given to new_group
  int index = 0;             // which group of its kind
  std::vector<int> members;  // global ranks, in the group's order
  int gpus_per_node = 8;     // rank r runs on node r / gpus_per_node

  int size() const { return static_cast<int>(members.size()); }
  int rank_at(int place) const { return members[static_cast<std::size_t>(place)]; }
  /// Of a member.
  int place_of(int rank) const;
  bool on_one_node(int place_a, int place_b) const {
    return rank_at(place_a) / gpus_per_node == rank_at(place_b) / gpus_per_node;
  }
};

/// "tp[3]": two groups are the same iff this is.
std::string short_text_of(const ProcessGroup& group);

/// "tp[3] = {12, 13, 14, 15}", long lists cut.
std::string text_of(const ProcessGroup& group);

/// "ranks 0, 1, 5", long lists cut.
std::string text_of_ranks(const std::vector<int>& ranks);

}  // namespace sim
