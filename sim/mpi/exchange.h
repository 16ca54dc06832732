#pragma once

/// One call of one process: what it sends to each other member, and what it makes of what they sent.
///
/// Shapes  payloads are bytes as elements lie in memory; of a collective, `letters` are by place, the rank's
///         own empty.
/// Exact   the data of the result is that of sim/world/transfer.h; of a native reduction, what
///         native_reductions.h says.

#include <vector>

#include "sim/comm/reduction_order.h"
#include "sim/mpi/letter.h"
#include "sim/mpi/native_reductions.h"

namespace sim {

/// What the member at `place` has for the one at `to`; empty: nothing.
Bytes payload_for(const Call& call, int members, int place, int to);

/// Writes the outputs of a collective, or of a recv (whose one letter stands at its peer's place).
void take_in(const Call& call, const ProcessGroup& group, int place, const ReductionOrder& order,
             const std::vector<Letter>& letters);

/// What a member gives to MPI's own reduction, and the output that it makes of what comes out.
NativeReduction native_reduction_of(const Call& call);
void take_in_native(const Call& call, int members, const Bytes& result);

}  // namespace sim
