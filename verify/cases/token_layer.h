#pragma once

/// The run that is shared by the cases of layers that map tokens to tokens: forward and backward on this
/// rank's tokens, and the sum of the gradients to which each rank adds only its own tokens.
///
/// Shapes  input and grad_output [tokens, hidden]; if the dimension sequence_parallel is 1, a rank has only
///         its rows of them. The tensors inside a layer are cut by heads or by columns.

#include "sim/model/transformer_layer.h"
#include "sim/parallel/sequence_parallel_grads.h"
#include "verify/cases/case_inputs.h"

namespace verify {

/// Publishes the tensors that a layer computes between its input and its output, so that the first wrong one
/// of them can be named. Outputs of these names are declared by outputs_inside_mlp() and
/// outputs_inside_attention().
inline void publish_inside(sim::Rank& rank, const sim::Mlp::Saved& saved, const std::string& of = "") {
  rank.publish(of + "fc1.output", saved.inside);
  rank.publish(of + "fc2.input", saved.fc2.input);
}
/// Of self-attention or of latent attention.
template <typename AttentionSaved>
requires requires(const AttentionSaved& saved) { saved.core; }
void publish_inside(sim::Rank& rank, const AttentionSaved& saved, const std::string& of = "") {
  rank.publish(of + "queries", saved.core.queries);
  rank.publish(of + "probabilities", saved.core.probabilities.front());
  rank.publish(of + "proj.input", saved.proj.input);
}
inline void publish_inside(sim::Rank& rank, const sim::TransformerLayer::Saved& saved) {
  publish_inside(rank, saved.attention, "self_attention.");
  publish_inside(rank, saved.mlp, "mlp.");
}
inline void publish_inside(sim::Rank& /*rank*/, const sim::ParallelNorm::Saved& /*saved*/) {}

/// Whether a layer publishes what it computes inside, which explanations look at. Where a special value is
/// drawn it does not: of a NaN, an infinity or a value below the normal ones only what comes out is judged.
inline bool publishes_inside(const CaseSetting& setting) { return setting.special == Special::none; }

inline std::vector<CaseOutput> outputs_inside_mlp(const CaseSetting& setting, const std::string& of = "") {
  if (!publishes_inside(setting)) return {};
  const bool gated = setting["gated"] == 1;
  return {{of + "fc1.output", Placement::columns, gated ? 2 : 1}, {of + "fc2.input", Placement::columns}};
}
/// The heads of a rank are a block of every sequence.
inline std::vector<CaseOutput> outputs_inside_attention(const CaseSetting& setting,
                                                        const std::string& of = "") {
  if (!publishes_inside(setting)) return {};
  const auto blocks = static_cast<int>(setting["batch"]);
  return {{of + "queries", Placement::rows, blocks},
          {of + "probabilities", Placement::rows, blocks},
          {of + "proj.input", Placement::columns}};
}

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
  if (publishes_inside(setting)) publish_inside(rank, forward.saved);
  rank.publish("output", forward.output);
  rank.publish("grad_input", grad_input);
}

}  // namespace verify
