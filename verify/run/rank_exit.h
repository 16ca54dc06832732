#pragma once

/// How the processes of ranks have ended, as far as their calls do not say it.
///
/// Shapes  `ended` has a text for each rank: its exit code, or minus the signal; nothing if it did not end.
/// Errors  rank_exit: a rank has ended its calls, and its process did not end with exit code 0.
/// Exact   a rank that is gone without a word (guest_gone) gets how its process has ended. Where ranks cannot
///         go on, the others are ended, and their exit codes say nothing.

#include <string>
#include <vector>

#include "sim/world/simulate.h"

namespace verify {

/// Adds it to the findings. `reproduce` is the line that reproduces the run.
void add_rank_exits(sim::RunReport& report, const std::vector<std::string>& ended,
                    const std::string& reproduce);

}  // namespace verify
