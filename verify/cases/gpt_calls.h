#pragma once

/// The calls that each rank of a GPT training makes, in closed form.
///
/// Calls   An all-reduce first ties the embeddings. In each step, every action of the rank's schedule then
///         makes the calls of its batch of messages and of its forward or backward step. If gradient
///         reduction overlaps, a chunk's last backward step is followed by the buckets that it completes.
///         After the schedule come the buckets that are not reduced yet, the sequence-parallel gradients, the
///         gradient of the tied embedding, the number of tokens, the tokens of each expert by which expert
///         biases move, the search for gradients that are not finite, the gradient norm, the gathers of
///         parameters, and the loss.
/// Exact   a step that is skipped has neither a gradient norm nor gathers. Otherwise all steps of a dense
///         model make the same calls. The sizes of calls of experts depend on the experts of each token.

#include <string>
#include <vector>

#include "verify/cases/gpt_reference.h"

namespace verify {

/// Returns what a rank does: its calls, and the first step of its schedule that is not the one of the source.
/// `chosen` may be null unless sizes depend on the experts of each token.
ExpectedRun expected_gpt_run(const GptPlan& plan, int rank, const ChosenExperts* chosen);

/// Returns the name of the call site of a batch of messages, such as
/// "pipeline.send_forward_recv_backward".
std::string site_of_messages(const std::vector<sim::Message>& batch);

}  // namespace verify
