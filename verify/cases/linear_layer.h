#pragma once

/// What cases of linear layers have in common: the gradient of a rank's features, and what is published of a
/// layer.
///
/// Shapes  with stride s, a rank's features are s blocks of `features`, block b at block b tp + r of the
///         whole.

#include "sim/tensor/rows.h"
#include "verify/cases/case.h"

namespace verify {

/// Of grad_output [tokens, whole features * stride], the columns of this rank's features.
inline sim::Tensor drawn_feature_grad(sim::Rank& rank, const CaseSetting& s) {
  const sim::Communicator& tp = rank.groups.get("tp");
  const std::int64_t width = s["features"], blocks = s["stride"];
  const sim::Tensor whole = drawn(rank, s, "grad_output", {s.whole("tokens"), s.whole("features") * blocks});
  sim::Tensor own = rank.device.empty(s.dtype, {s.whole("tokens"), width * blocks});
  for (std::int64_t block = 0; block < blocks; ++block)
    sim::put_columns(sim::columns(whole, (block * tp.size() + tp.rank()) * width, width), own, block * width);
  return own;
}

/// What a linear layer was given, what it has, and what came of it.
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
