#pragma once

/// What the dumps of a job cannot tell, whatever the verdict is: what no dump has, what these lack (ranks,
/// earlier calls, states, stacks), and what was not understood of them.

#include <string>
#include <vector>

#include "verify/inspect/early_dumps.h"
#include "verify/inspect/job.h"

namespace verify {

/// Returns sentences.
std::vector<std::string> limits_of(const Job& job, const EarlyDumps& early);

}  // namespace verify
