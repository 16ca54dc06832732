#pragma once

/// Ranks that have made their groups in another order than the other members of these groups.
///
/// PyTorch names a group by a number, which each rank counts up with every group that it makes or passes
/// over. So the members of a group have one name of it, unless they make their groups in different orders.
/// The communicator of such a group is never formed, and whoever calls in it waits.
///
/// Exact   A rank is named that has another name of groups than most of their members; of groups without a
///         majority the one that is in most of them, and of several such ranks those that number two kinds of
///         groups in another order than most ranks do. Where more than two ranks, and more than an eighth of
///         them, are named so, or names are no numbers, nothing is said, and nothing of a group in which a
///         call has completed: some groups are made by their members alone, or as parts of a larger one, and
///         counted by these alone.
/// Source  PyTorch, torch/distributed/distributed_c10d.py, _process_group_name.

#include <string>
#include <vector>

#include "verify/inspect/job.h"

namespace verify {

struct OddGroupOrder {
  std::vector<int> ranks;  // ascending; empty: no rank is known to make its groups in another order
  std::string text;        // sentences
};

OddGroupOrder odd_group_order_of(const Job& job);

}  // namespace verify
