#include "sim/layout/group_kind.h"

#include <algorithm>
#include <utility>

#include "sim/base/check.h"

namespace sim {

GroupKind::GroupKind(std::string name, Listing listing, int size, int stride)
    : name_(std::move(name)), listing_(std::move(listing)), parent_size_(size), stride_(stride) {
  SIM_CHECK(size >= 1 && stride >= 1);
  SIM_CHECK(listing_.size() % size == 0 && listing_.size() / size % stride == 0);
}

GroupKind GroupKind::picked(std::string name, const GroupKind& parent, std::vector<int> positions) {
  SIM_CHECK(parent.stride_ == 1 && parent.picks_.empty() && !positions.empty());
  SIM_CHECK(std::is_sorted(positions.begin(), positions.end()));
  SIM_CHECK(positions.front() >= 0 && positions.back() < parent.parent_size_);
  GroupKind kind(std::move(name), parent.listing_, parent.parent_size_);
  kind.picks_ = std::move(positions);
  return kind;
}

int GroupKind::member(int group, int position) const {
  SIM_CHECK(group >= 0 && group < count() && position >= 0 && position < size());
  const int parent_position = picks_.empty() ? position : picks_[static_cast<std::size_t>(position)];
  const int window = group / stride_;
  const int lane = group % stride_;
  return listing_.rank_at((window * parent_size_ + parent_position) * stride_ + lane);
}

std::vector<int> GroupKind::members(int group) const {
  std::vector<int> result(static_cast<std::size_t>(size()));
  for (int position = 0; position < size(); ++position) {
    result[static_cast<std::size_t>(position)] = member(group, position);
  }
  return result;
}

std::optional<GroupKind::Place> GroupKind::place_of(int rank) const {
  if (!listing_.contains(rank)) return std::nullopt;
  const int place = listing_.place_of(rank);
  const int window = place / (parent_size_ * stride_);
  const int within = place % (parent_size_ * stride_);
  const int group = window * stride_ + within % stride_;
  const int position = within / stride_;
  if (picks_.empty()) return Place{group, position};
  const auto pick = std::lower_bound(picks_.begin(), picks_.end(), position);
  if (pick == picks_.end() || *pick != position) return std::nullopt;
  return Place{group, static_cast<int>(pick - picks_.begin())};
}

bool GroupKind::same_groups(const GroupKind& other) const {
  return listing_ == other.listing_ && parent_size_ == other.parent_size_ && stride_ == other.stride_ &&
         picks_ == other.picks_;
}

}  // namespace sim
