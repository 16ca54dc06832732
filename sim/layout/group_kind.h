#pragma once

/// One kind of process group ("tp", "dp-cp", ...) as arithmetic: who is in group i, and where a rank stands,
/// in O(group size) and O(1), with no list of lists.
///
/// A listing (listing.h) has the kind's own axes fastest. A group takes `size` entries of it, `stride` apart:
///
///   stride 1   consecutive entries: the plain kinds, every kind of contiguous slices (intra-dp-cp,
///              intra-edp, hcp-L0), every concatenation (intra-dist-opt); only the size differs from the
///              parent's
///   stride U   every U-th entry of a window of size * U: inter-edp, hcp-L1, ...
///   picks      only the named positions of each parent group: embd [first, last], pos_embd [first]
///
/// Shapes  count() groups of size() ranks each.
/// Exact   groups come in Megatron's creation order, members in Megatron's list order.
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
    int group;     // which group of the kind
    int position;  // which member of it
    bool operator==(const Place&) const = default;
  };

  GroupKind(std::string name, Listing listing, int size, int stride = 1);
  /// Of each group of `parent` (whose stride must be 1) only the members at `positions`, ascending.
  static GroupKind picked(std::string name, const GroupKind& parent, std::vector<int> positions);

  const std::string& name() const { return name_; }
  int count() const { return listing_.size() / parent_size_; }
  int size() const { return picks_.empty() ? parent_size_ : static_cast<int>(picks_.size()); }

  int member(int group, int position) const;
  std::vector<int> members(int group) const;
  /// Absent when the rank is in no group of this kind (embd, pos_embd; ranks outside the grid).
  std::optional<Place> place_of(int rank) const;

  /// Calls visit(group, std::span<const int> members) for every group in creation order. One buffer is
  /// reused.
  template <typename Visit>
  void for_each_group(Visit&& visit) const;

  /// Same groups, same members, same order.
  bool same_groups(const GroupKind& other) const;

 private:
  std::string name_;
  Listing listing_;
  int parent_size_;  // entries of the listing a group spans before picks
  int stride_;
  std::vector<int> picks_;  // empty: all
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
