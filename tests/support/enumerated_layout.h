#pragma once

/// Megatron's groups written a second time, from their definition and with plain lists of lists: two ranks
/// are in one group when all coordinates outside the group's token agree; groups stand in the order of their
/// first members. No strides, no arithmetic on ranks, nothing shared with sim/layout but the sizes it is
/// asked for.

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
  std::vector<std::pair<std::string, int>> calls;    // every new_group call: kind, group

  const Lists& operator[](const std::string& kind) const;
};

/// Nothing when Megatron refuses the sizes. The order must name all five axes once, in lower case.
std::optional<EnumeratedLayout> enumerate_megatron(const sim::ParallelSizes& sizes);

/// The seeds' loops for dp, mp, tp and pp, embd, pos_embd.
std::optional<EnumeratedLayout> enumerate_legacy(const sim::ParallelSizes& sizes);

/// All lists of a kind of a layout.
template <typename Kind>
Lists lists_of(const Kind& kind) {
  Lists lists;
  kind.for_each_group([&](int, auto members) { lists.emplace_back(members.begin(), members.end()); });
  return lists;
}

}  // namespace test
