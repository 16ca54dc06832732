#pragma once

/// One rank's part of a trial of moe_layer. The case uses it, and so do the planted programs of a layer of
/// experts with a defect.

#include "verify/cases/moe_plan.h"

namespace verify {

/// Returns the rows of this rank's tokens, from a tensor that is drawn for all tokens.
sim::Tensor own_tokens(sim::Rank& rank, const MoePlan& plan, const char* name);

/// What a layer computes of the input and of the gradient of the output.
struct MoeResults {
  sim::Tensor probs, output, grad_input;
};
MoeResults results_of(sim::Rank& rank, const MoePlan& plan, sim::MoeLayer& layer);

/// Sums the gradients of replicated parameters over tp, and publishes the results and all gradients.
void publish_moe_layer(sim::Rank& rank, const MoePlan& plan, sim::MoeLayer& layer, const MoeResults& results);

}  // namespace verify
