#pragma once

/// Computes a second time the bytes that a member of a group sends in a call, to check the ledger of bytes.
///
/// Shapes  bytes inside the member's node and to other nodes. A ring sends to the next place of the group;
///         gather, scatter and all_to_all send straight to their destinations.
/// Exact   The record of an uneven all_to_all does not keep the rows for each place. Its bytes are checked if
///         the expected call says how many elements are for each place.
/// Source  the ring kernels of NCCL (verify/reference/ring_elements.h).

#include <cstdint>
#include <string>
#include <vector>

#include "sim/comm/call.h"

namespace verify {

/// Returns how the bytes of a record differ from those that its rank must send; "" if they do not.
/// `elements_to` is that of the expected call.
std::string wrong_bytes(const sim::CallRecord& call, int rank,
                        const std::vector<std::int64_t>& elements_to = {});

}  // namespace verify
