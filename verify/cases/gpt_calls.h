#pragma once

/// The calls that each rank of a GPT training makes, in closed form.
///
/// Calls   An all-reduce first ties the embeddings. In each step, every action of the rank's schedule then
///         makes the calls of its batch of messages and of its forward or backward step. If gradient
///         reduction overlaps, a chunk's last backward step is followed by the buckets that it completes.
///         After the schedule come the buckets that are not reduced yet, the sequence-parallel gradients, the
///         gradient of the tied embedding, the number of tokens, the search for gradients that
///         are not finite, the gradient norm, the gathers of parameters, and the loss.
/// Exact   all steps make the same calls, so that one step is computed and then repeated. A step that is
///         skipped has neither a gradient norm nor gathers.

#include <vector>

#include "verify/cases/gpt_plan.h"

namespace verify {

/// Returns what a rank does: its calls, and the first step of its schedule that is not the one of the source.
ExpectedRun expected_gpt_run(const GptPlan& plan, int rank);

}  // namespace verify
