#include "sim/layout/rank_grid.h"

#include <algorithm>
#include <utility>

#include "sim/base/check.h"

namespace sim {

RankGrid::RankGrid(std::vector<Axis> order, PerAxis<int> sizes, int first_rank)
    : order_(std::move(order)), sizes_(sizes), first_rank_(first_rank) {
  SIM_CHECK(order_.size() == sizes_.values.size());
  int stride = 1;
  for (const Axis axis : order_) {
    strides_[axis] = stride;
    stride *= sizes_[axis];
  }
}

int RankGrid::rank_of(const PerAxis<int>& coordinates) const {
  int rank = first_rank_;
  for (const Axis axis : order_) {
    SIM_CHECK(coordinates[axis] >= 0 && coordinates[axis] < sizes_[axis]);
    rank += coordinates[axis] * strides_[axis];
  }
  return rank;
}

PerAxis<int> RankGrid::coordinates_of(int rank) const {
  PerAxis<int> coordinates;
  for (const Axis axis : order_) {
    coordinates[axis] = (rank - first_rank_) / strides_[axis] % sizes_[axis];
  }
  return coordinates;
}

Listing RankGrid::listing(const std::vector<Axis>& group) const {
  std::vector<Digit> digits;
  for (const bool in_group : {true, false}) {
    for (const Axis axis : order_) {
      const bool belongs = std::find(group.begin(), group.end(), axis) != group.end();
      if (belongs == in_group) digits.push_back({sizes_[axis], strides_[axis]});
    }
  }
  return Listing(digits, first_rank_);
}

int RankGrid::group_size(const std::vector<Axis>& group) const {
  int size = 1;
  for (const Axis axis : group) size *= sizes_[axis];
  return size;
}

}  // namespace sim
