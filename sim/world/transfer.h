#pragma once

/// Moves the data of a collective whose members have all arrived and agree, or of a message.
///
/// Shapes  work is cut into parts that touch different elements, so that several threads can share it;
///         whatever the cut, every element is folded in the group's order.

#include <span>

#include "sim/comm/reduction_order.h"
#include "sim/world/posted_call.h"

namespace sim {

/// Into how many parts the transfer is worth cutting, at most `most`.
int parts_of(std::span<PostedCall* const> calls, int most);

void transfer(std::span<PostedCall* const> calls, const ProcessGroup& group, const ReductionOrder& order,
              int part, int parts);

void transfer(const Call& send, const Call& receive);

}  // namespace sim
