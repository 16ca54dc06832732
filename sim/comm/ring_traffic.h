#pragma once

/// Bytes one rank sends in a call, as a ring algorithm sends them, inside its node and across nodes.
///
/// Shapes  the ring is the group's order; a rank sends to the next place. With n members and chunks of
///         count/n elements (the first count % n chunks one larger):
///           all_reduce          everything twice, less chunk p and chunk p + 1
///           reduce_scatter      the n blocks less its own;  all_gather: the n blocks less the next place's
///           broadcast           everything, but for the place before the root; reduce: but for the root
///           gather              a block straight to the root; scatter: from the root, a block to each
///           all_to_all          a block straight to each other place; uneven: the rows for it
///           send                everything, to the peer
///           barrier, split, new_group, recv   nothing that is counted
/// Source  NCCL 2.28.9, the ring kernels; gather, scatter and all_to_all are its grouped sends.

#include <cstdint>

#include "sim/comm/call.h"

namespace sim {

struct Traffic {
  std::int64_t bytes_inside = 0;
  std::int64_t bytes_across = 0;
};

Traffic traffic_of(const Call& call, const ProcessGroup& group, int place);

}  // namespace sim
