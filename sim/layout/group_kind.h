#pragma once

/// One kind of process group ("tp", "dp-cp", ...), computed by arithmetic instead of stored as lists of
/// ranks. It gives the members of group i in O(group size), and the place of a rank in O(1).
///
/// A listing (listing.h) has the axes of the kind fastest. A group takes `size` entries of the listing
/// that are `stride` apart:
///
///   stride 1   Consecutive entries: the plain kinds, the kinds of contiguous slices (intra-dp-cp,
///              intra-edp, hcp-L0) and the concatenations (intra-dist-opt). A slice or concatenation
///              differs from its parent kind only in its size.
///   stride U   Every U-th entry of a window of size * U entries: inter-edp, hcp-L1, ...
///   picks      Only the given positions of each parent group: embd [first, last], pos_embd [first].
///
/// Shapes  count() groups of size() ranks each.
/// Exact   groups come in the order in which Megatron creates them, members in the order of Megatron's
///         lists.
/// Source  Megatron-LM parallel_state.py, RankGenerator.

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/layout/listing.h"

namespace sim {

class GroupKind {
 public:
  struct Place {
    int group;     // index of the group within the kind
    int position;  // index of the rank within the group
    bool operator==(const Place&) const = default;
  };

  GroupKind(std::string name, Listing listing, int size, int stride = 1);
  /// Makes a kind that keeps, of each group of `parent` (whose stride must be 1), only the members at
  /// `positions`, which are ascending.
  static GroupKind picked(std::string name, const GroupKind& parent, std::vector<int> positions);

  const std::string& name() const { return name_; }
  int count() const { return listing_.size() / parent_size_; }
  int size() const { return picks_.empty() ? parent_size_ : static_cast<int>(picks_.size()); }

  int member(int group, int position) const;
  std::vector<int> members(int group) const;
  /// Returns nothing when the rank is in no group of this kind (embd, pos_embd; ranks outside the grid).
  std::optional<Place> place_of(int rank) const;

  /// Calls visit(group, std::span<const int> members) for every group in creation order. All calls share
  /// one buffer, which the next call overwrites.
  template <typename Visit>
  void for_each_group(Visit&& visit) const;

  /// True if both kinds have the same groups with the same members, in the same order.
  bool same_groups(const GroupKind& other) const;

 private:
  std::string name_;
  Listing listing_;
  int parent_size_;  // number of listing entries in a group before picks
  int stride_;
  std::vector<int> picks_;  // positions of a parent group to keep; empty: all
};

template <typename Visit>
void GroupKind::for_each_group(Visit&& visit) const {
  Listing::Cursor cursor(listing_);
  std::vector<int> window(static_cast<std::size_t>(parent_size_) * static_cast<std::size_t>(stride_));
  if (stride_ == 1 && picks_.empty()) {
    for (int group = 0; group < count(); ++group) {
      cursor.fill(window);
      visit(group, std::span<const int>(window));
    }
    return;
  }
  std::vector<int> members(static_cast<std::size_t>(size()));
  for (int group = 0; group < count();) {
    cursor.fill(window);
    for (int lane = 0; lane < stride_; ++lane, ++group) {
      for (std::size_t i = 0; i < members.size(); ++i) {
        const std::size_t position = picks_.empty() ? i : static_cast<std::size_t>(picks_[i]);
        members[i] = window[position * static_cast<std::size_t>(stride_) + static_cast<std::size_t>(lane)];
      }
      visit(group, std::span<const int>(members));
    }
  }
}

}  // namespace sim
