#pragma once

/// Checks whether another process makes the same call as this one. The check comes before any data is used.
///
/// Errors  the codes of finding.h: collective_type_mismatch, group_not_created_by_all, group_order_mismatch,
///         collective_dtype_mismatch, size_or_syntax_mismatch, reduction_mismatch, root_mismatch,
///         message_size_mismatch, message_dtype_mismatch.

#include "sim/mpi/letter.h"

namespace sim {

/// Refuses a letter that does not agree with the letter of this rank's own call.
void require_agreement(const Letter& own, const Letter& other);

}  // namespace sim
