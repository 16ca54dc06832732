#pragma once

/// The run that is shared by the cases of layers that map tokens to tokens: forward and backward on this
/// rank's tokens, and the sum of the gradients to which each rank adds only its own tokens.
///
/// Shapes  input and grad_output [tokens, hidden]; if the dimension sequence_parallel is 1, a rank has only
///         its rows of them.

#include "sim/parallel/sequence_parallel_grads.h"
#include "verify/cases/case_inputs.h"

namespace verify {

/// Publishes output and grad_input. The gradients of the parameters stay in the layer.
template <typename Layer>
void run_token_layer(sim::Rank& rank, const CaseSetting& setting, Layer& layer, std::int64_t tokens,
                     std::int64_t hidden) {
  const auto own = [&](const char* name) {
    return setting["sequence_parallel"] == 1 ? drawn_own_rows(rank, setting, name, tokens, hidden)
                                             : drawn(rank, setting, name, {tokens, hidden});
  };
  const auto forward = [&] {
    if constexpr (requires { layer.forward(sim::Tensor(), std::uint64_t{0}); }) {
      return layer.forward(own("input"), static_cast<std::uint64_t>(setting["pass"]));
    } else {
      return layer.forward(own("input"));
    }
  }();
  const sim::Tensor grad_input = layer.backward(forward.saved, own("grad_output"));
  sim::all_reduce_sequence_parallel_grads(rank, layer.parameters());
  rank.publish("output", forward.output);
  rank.publish("grad_input", grad_input);
}

}  // namespace verify
