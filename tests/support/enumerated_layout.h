#pragma once

/// Megatron's groups, enumerated from their definition with plain lists of lists. Two ranks are in one group
/// when all coordinates outside the group's token agree, and groups stand in the order of their first
/// members. There are no strides and no arithmetic on ranks, and nothing is shared with sim/layout but the
/// sizes.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/layout/parallel_sizes.h"

namespace test {

using Lists = std::vector<std::vector<int>>;

struct EnumeratedLayout {
  int dp = 0;
  int etp = 0;
  int edp = 0;
  std::vector<std::pair<std::string, Lists>> kinds;  // in creation order
  std::vector<std::pair<std::string, int>> calls;    // every new_group call as (kind, group)

  const Lists& operator[](const std::string& kind) const;
};

/// Returns nothing when Megatron refuses the sizes. The order must name all five axes once, in lower case.
std::optional<EnumeratedLayout> enumerate_megatron(const sim::ParallelSizes& sizes);

/// The seeds' loops for dp, mp, tp and pp, embd, pos_embd.
std::optional<EnumeratedLayout> enumerate_legacy(const sim::ParallelSizes& sizes);

/// Returns all lists of members of a kind of group.
template <typename Kind>
Lists lists_of(const Kind& kind) {
  Lists lists;
  kind.for_each_group([&](int, auto members) { lists.emplace_back(members.begin(), members.end()); });
  return lists;
}

}  // namespace test
