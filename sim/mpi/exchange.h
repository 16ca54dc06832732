#pragma once

/// The data of one call of one process: what it sends to each other member, and how it computes its output
/// from what they sent.
///
/// Shapes  payloads are bytes as elements lie in memory. `letters` has one element for each place of the
///         group; the payload of this rank's own letter is empty.
/// Exact   the results are those of sim/world/transfer.h.

#include <vector>

#include "sim/comm/reduction_order.h"
#include "sim/mpi/letter.h"

namespace sim {

/// Returns the bytes that the member at `place` sends to the one at `to`; empty if it sends nothing.
Bytes payload_for(const Call& call, int members, int place, int to);

/// Writes the output of a collective or of a recv. The letter of a recv is at its peer's place.
void take_in(const Call& call, const ProcessGroup& group, int place, const ReductionOrder& order,
             const std::vector<Letter>& letters);

}  // namespace sim
