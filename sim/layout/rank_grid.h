#pragma once

/// The rank grid: global rank = first_rank + sum over axes of coordinate * stride. The order lists the
/// axes from the fastest varying (stride 1) to the slowest. The stride of an axis is the product of the
/// sizes of the axes before it.
///
/// A layout has two grids over the same ranks: the dense grid tp-cp-dp-pp (ep = 1) and the expert grid
/// etp-ep-edp-pp (cp = 1), in which axis tp holds etp and axis dp holds edp.
///
/// Exact   coordinates_of and rank_of are inverses of each other.
/// Source  Megatron-LM parallel_state.py, RankGenerator.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/layout/listing.h"

namespace sim {

enum class Axis : std::uint8_t { tp, cp, ep, dp, pp };
inline constexpr std::array<const char*, 5> kAxisNames = {"tp", "cp", "ep", "dp", "pp"};

/// One number per axis, indexed by Axis.
template <typename T>
struct PerAxis {
  std::array<T, 5> values{};
  T& operator[](Axis axis) { return values[static_cast<std::size_t>(axis)]; }
  const T& operator[](Axis axis) const { return values[static_cast<std::size_t>(axis)]; }
  bool operator==(const PerAxis&) const = default;
};

class RankGrid {
 public:
  RankGrid(std::vector<Axis> order, PerAxis<int> sizes, int first_rank);

  int size(Axis axis) const { return sizes_[axis]; }
  int stride(Axis axis) const { return strides_[axis]; }
  int rank_of(const PerAxis<int>& coordinates) const;
  PerAxis<int> coordinates_of(int rank) const;

  /// Returns a listing of all ranks with the `group` axes fastest; inside and outside of `group`, axes
  /// keep their order in the grid. Pieces of group_size(group) entries are the groups that join these
  /// axes, and the order of the axes in `group` does not matter.
  Listing listing(const std::vector<Axis>& group) const;
  int group_size(const std::vector<Axis>& group) const;

 private:
  std::vector<Axis> order_;
  PerAxis<int> sizes_;
  PerAxis<int> strides_;
  int first_rank_;
};

}  // namespace sim
