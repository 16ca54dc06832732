#pragma once

/// The activation between the two linear layers of an MLP. In a gated MLP (SwiGLU and its relatives) the
/// output of the first layer is [gate | up], and the result is f(gate) times up.
///
/// Shapes  inside [T, F], or [T, 2 F] if gated; result [T, F].
/// Exact   The product with `up` is rounded after the activation.
/// Source  Shazeer 2020; Megatron-LM, transformer/mlp.py.

#include <memory>

#include "sim/tensor/element_function.h"
#include "sim/tensor/kernel_parameters.h"

namespace sim {

struct GatedActivation {
  Activation function = Activation::gelu_tanh;
  bool gated = false;
  /// A function of an author, which takes the place of `function`; null if there is none.
  std::shared_ptr<const ElementFunction> own = nullptr;

  Tensor forward(const Tensor& inside) const;
  /// Returns the gradient of `inside` from that of the result.
  Tensor backward(const Tensor& inside, const Tensor& grad) const;

 private:
  Tensor value(const Tensor& x) const;
  Tensor gradient(const Tensor& x, const Tensor& grad) const;
};

}  // namespace sim
