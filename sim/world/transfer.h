#pragma once

/// Moves the data of a collective whose members have all arrived and agree, or of a message.
///
/// Shapes  the work is divided into parts that write different elements, so that several threads can share
///         it. Every element is folded in the same order, whatever the number of parts.

#include <span>

#include "sim/comm/reduction_order.h"
#include "sim/world/posted_call.h"

namespace sim {

/// Returns the number of parts into which it is worth dividing the transfer: from 1 to `most`.
int parts_of(std::span<PostedCall* const> calls, int most);

/// Moves one part of the data of a collective. `calls` has the calls of all members in the order of the
/// group.
void transfer(std::span<PostedCall* const> calls, const ProcessGroup& group, const ReductionOrder& order,
              int part, int parts);

/// Moves the data of a message.
void transfer(const Call& send, const Call& receive);

}  // namespace sim
