#pragma once

/// The arguments that are not modelled exactly and may therefore change whether a run fits.
///
/// Calls   An argument is compared with what is left, or missing, on the stage that holds most. What
///         arguments of one purpose may add is added once for all of them.
/// Exact   The bounds are chosen: an argument about the step may double what the step holds, and one about
///         the format or the place of the model may also add a copy of its parameters. What moves memory to
///         the host adds nothing. All other arguments may change anything.

#include <cstdint>
#include <vector>

#include "verify/megatron_rules/run_account.h"
#include "verify/memory/stage_memory.h"

namespace verify {

/// Returns the arguments that leave it open whether a stage fits, of which `left` bytes are left; a negative
/// number is missing.
std::vector<AccountedArgument> doubtful_arguments(const std::vector<AccountedArgument>& uncounted,
                                                  const StageMemory& stage, std::int64_t left);

}  // namespace verify
