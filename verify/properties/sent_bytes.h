#pragma once

/// Computes a second time the bytes that a member of a group sends in a call, to check the ledger of bytes.
///
/// Shapes  bytes inside the member's node and to other nodes. A ring sends to the next place of the group;
///         gather, scatter and all_to_all send straight to their destinations.
/// Exact   an uneven all_to_all is not checked, because its record does not keep the rows for each place.
/// Source  the ring kernels of NCCL (verify/reference/ring_elements.h).

#include <string>

#include "sim/comm/call.h"

namespace verify {

/// Returns how the bytes of a record differ from those that its rank must send; "" if they do not.
std::string wrong_bytes(const sim::CallRecord& call, int rank);

}  // namespace verify
