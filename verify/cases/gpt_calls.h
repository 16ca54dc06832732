#pragma once

/// The calls that each rank of a GPT training makes, in closed form.
///
/// Calls   first the all-reduce that ties the embeddings. Then, in each step, for every action of the rank's
///         schedule: the messages of its batch, and the calls of a chunk's forward or backward step. If
///         gradient reduction overlaps, the end of a chunk's last backward step is followed by the buckets
///         that it completes. After the schedule: the buckets that are not reduced yet, the
///         sequence-parallel gradients, the gradient of the tied embedding, the number of tokens, the
///         gradient norm, the gathers of parameters, and the loss.
/// Exact   all steps make the same calls, so that one step is computed and then repeated.

#include <vector>

#include "verify/cases/gpt_plan.h"

namespace verify {

std::vector<ExpectedCall> gpt_calls(const GptPlan& plan, int rank);

}  // namespace verify
