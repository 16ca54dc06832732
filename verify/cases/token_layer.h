#pragma once

/// What cases of layers from tokens to tokens have in common: forward and backward on this rank's tokens, the
/// sum of the gradients that saw a part of them, and what comes of the input.
///
/// Shapes  input and grad_output [tokens, hidden], of which a rank has its rows with the dimension
///         sequence_parallel.

#include "sim/parallel/sequence_parallel_grads.h"
#include "verify/cases/case.h"

namespace verify {

/// Publishes output and grad_input; the gradients of parameters are left in the layer.
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
