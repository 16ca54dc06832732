#pragma once

/// What a pending call looks like in a Megatron training: "sequence-parallel gather", "expert dispatch or
/// combine". It is a guess from the kind of the group, the operation, its dtype and the thread that issued it.

#include <cstddef>
#include <string>

#include "verify/inspect/job.h"

namespace verify {

/// Returns a noun phrase; "" where nothing fits.
std::string call_meaning(const Job& job, std::size_t dump, const RecordedCall& call);

}  // namespace verify
