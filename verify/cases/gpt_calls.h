#pragma once

/// What each rank of a training of a GPT calls, in closed form.
///
/// Calls   first the tie of the embedding. A step: for each action of the rank's schedule the messages of a
///         batch, or what a chunk's forward or backward calls; when a chunk's last backward step is over, the
///         buckets that it completes, where their reduction overlaps. Then all other buckets,
///         sequence-parallel gradients, the tied embedding's, tokens, the norm, gathers of parameters, the
///         loss.
/// Exact   every step is the same one, so that the list takes as long as it is.

#include <vector>

#include "verify/cases/gpt_plan.h"

namespace verify {

std::vector<ExpectedCall> gpt_calls(const GptPlan& plan, int rank);

}  // namespace verify
