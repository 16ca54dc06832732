#pragma once

/// The bytes that one rank sends in a call when a ring algorithm runs it, inside its node and across nodes.
///
/// Shapes  the ring has the order of the group, and a rank sends to the next place. With n members and chunks
///         of count/n elements (the first count % n chunks have one more), place p sends:
///           all_reduce          all elements twice, less chunk p and chunk p + 1
///           reduce_scatter      the n blocks less its own block
///           all_gather          the n blocks less the block of the next place
///           broadcast           all elements; the place before the root sends nothing
///           reduce              all elements; the root sends nothing
///           gather              a block straight to the root
///           scatter             at the root: a block straight to each other place
///           all_to_all          a block straight to each other place
///           all_to_all_uneven   the rows for each other place, straight to it
///           send                all elements, to the peer
///           barrier, split, new_group, recv   nothing that is counted
/// Source  NCCL 2.28.9, the ring kernels; gather, scatter and all_to_all are its grouped sends.

#include <cstdint>

#include "sim/comm/call.h"

namespace sim {

struct Traffic {
  std::int64_t bytes_inside = 0;
  std::int64_t bytes_across = 0;
};

/// Returns the bytes that the member at `place` sends.
Traffic traffic_of(const Call& call, const ProcessGroup& group, int place);

}  // namespace sim
