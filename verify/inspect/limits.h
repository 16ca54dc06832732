#pragma once

/// What the dumps of a job cannot tell, whatever the verdict is: what no dump has, what these lack (ranks,
/// earlier calls, states, stacks), and what was not understood of them.

#include <string>
#include <vector>

#include "verify/inspect/early_dumps.h"
#include "verify/inspect/job.h"
#include "verify/inspect/suspects.h"

namespace verify {

/// Returns sentences. Ranks without a dump are told where there are suspects: otherwise the verdict has them.
std::vector<std::string> limits_of(const Job& job, const EarlyDumps& early,
                                   const std::vector<Suspect>& suspects);

/// Returns "2 of 8 ranks have no dump here (ranks 3 and 4): what they did is not known"; "" if all have one.
std::string words_of_missing_dumps(const Job& job);

}  // namespace verify
