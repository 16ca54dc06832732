#pragma once

/// Functions shared by the cases of linear layers: they draw the gradient of a rank's features, and publish
/// the tensors of a layer.
///
/// Shapes  with stride s, the features of rank r are s blocks of `features` each; its block b is block
///         b tp + r of the whole.

#include "sim/tensor/rows.h"
#include "verify/cases/case_inputs.h"

namespace verify {

/// Returns those columns of grad_output [tokens, whole features * stride] that are this rank's features.
inline sim::Tensor drawn_feature_grad(sim::Rank& rank, const CaseSetting& s) {
  const sim::Communicator& tp = rank.groups.get("tp");
  const std::int64_t width = s["features"], blocks = s["stride"];
  const sim::Tensor whole = drawn(rank, s, "grad_output", {s.whole("tokens"), s.whole("features") * blocks});
  sim::Tensor own = rank.device.empty(s.dtype, {s.whole("tokens"), width * blocks});
  for (std::int64_t block = 0; block < blocks; ++block)
    sim::put_columns(sim::columns(whole, (block * tp.size() + tp.rank()) * width, width), own, block * width);
  return own;
}

/// Publishes the input, weight, output and gradients of a linear layer, and its bias if it has one.
template <typename Layer>
void publish_linear(sim::Rank& rank, const CaseSetting& s, Layer& layer, const sim::Tensor& input,
                    const sim::Tensor& output, const sim::Tensor& grad_output,
                    const sim::Tensor& grad_input) {
  rank.publish("input", input);
  rank.publish("weight", layer.weight().value);
  rank.publish("output", output);
  rank.publish("grad_output", grad_output);
  rank.publish("grad_input", grad_input);
  rank.publish("weight_grad", layer.weight().main_grad);
  if (s["bias"] == 0) return;
  rank.publish("bias", layer.bias().value);
  rank.publish("bias_grad", layer.bias().main_grad);
}

}  // namespace verify
