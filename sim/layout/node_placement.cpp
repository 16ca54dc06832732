#include "sim/layout/node_placement.h"

#include <algorithm>

namespace sim {

bool NodePlacement::crosses_node(std::span<const int> members) const {
  // The ranks of one node are one contiguous range, so the smallest and the largest member decide.
  const auto [smallest, largest] = std::minmax_element(members.begin(), members.end());
  return node_of(*smallest) != node_of(*largest);
}

int NodePlacement::groups_crossing_node(const GroupKind& kind) const {
  int crossing = 0;
  kind.for_each_group([&](int, std::span<const int> members) { crossing += crosses_node(members) ? 1 : 0; });
  return crossing;
}

}  // namespace sim
