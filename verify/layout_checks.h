#pragma once

/// What replay proves of a layout's process groups. Each check enumerates the groups member by member and
/// counts; none trusts the arithmetic that made them.
///
///   partition    every rank is in exactly one group of each kind (embd, pos_embd: in at most one)
///   orthogonal   two groups of kinds that split the world along different axes share exactly one rank
///   products     complementary kinds: each group of one meets each group of the other it should, sizes
///   multiply
///                to the world
///   pipelines    the dense and the expert grid put every rank at the same place of the same pipeline
///   creation     each new_group call is entered by exactly the ranks it lists, and every rank meets its
///   groups at
///                the same place of one sequence
///   nodes        how many tp and dp groups cross a node, counted from the groups and again from the ranks
///
/// Errors  a broken law is a failed check that names the first counterexample, never an exception.
/// Source  the invariants 1 to 5 that any Megatron layout must keep.

#include <string>
#include <vector>

#include "sim/layout/layout.h"
#include "sim/layout/node_placement.h"

namespace verify {

struct CheckResult {
  std::string check;
  bool holds = false;
  std::string detail;  // what was counted, or the first counterexample
};

CheckResult check_partition(const sim::Layout& layout);
CheckResult check_orthogonal(const sim::Layout& layout);
CheckResult check_products(const sim::Layout& layout);
CheckResult check_pipelines(const sim::Layout& layout);
CheckResult check_creation(const sim::Layout& layout);
CheckResult check_nodes(const sim::Layout& layout, const sim::NodePlacement& nodes);

/// A kind's groups against a list of groups, order of groups and of members included.
CheckResult check_expected_groups(const sim::Layout& layout, const std::string& kind,
                                  const std::vector<std::vector<int>>& expected);

}  // namespace verify
