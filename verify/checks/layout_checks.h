#pragma once

/// What replay proves of a layout's process groups. partition, orthogonal and products walk the lists of
/// members and count; the others hold the lists against the view a rank has of itself (its coordinates, its
/// place, the calls it enters), which is other arithmetic than that of the lists.
///
///   partition    every rank is in exactly one group of each kind (embd, pos_embd: in at most one)
///   orthogonal   two groups of kinds that split the world along different axes share exactly one rank
///   products     complementary kinds: each group of one meets each group of the other in one rank, and their
///                sizes multiply to the world
///   pipelines    a pipeline's ranks differ in their pp coordinate only, in the dense and in the expert grid
///   creation     every new_group call creates one group, and exactly the ranks it lists find themselves in
///                it, each at the position where it is listed
///   nodes        how many tp, dp (and with experts ep) groups cross a node, counted from the lists and again
///                from the ranks
///
/// All but check_partition need a layout that passes it.
///
/// Errors  a broken law is a failed check that names the first counterexample, never an exception.
/// Source  the invariants 1 to 5 that any Megatron layout must keep.

#include <string>
#include <vector>

#include "sim/layout/layout.h"
#include "sim/layout/node_placement.h"
#include "verify/checks/check_result.h"

namespace verify {

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
