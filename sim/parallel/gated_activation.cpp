#include "sim/parallel/gated_activation.h"

#include "sim/tensor/activation.h"
#include "sim/tensor/checks.h"
#include "sim/tensor/ops.h"
#include "sim/tensor/rows.h"

namespace sim {

namespace {

Tensor times(const Tensor& a, const Tensor& b) { return combine(ReduceOp::product, a, b); }

/// gate_of() and up_of() return the halves [gate | up] of the output of the first layer.
Tensor gate_of(const Tensor& inside) { return columns(inside, 0, columns_of(inside) / 2); }
Tensor up_of(const Tensor& inside) { return columns(inside, columns_of(inside) / 2, columns_of(inside) / 2); }

}  // namespace

Tensor GatedActivation::value(const Tensor& x) const {
  return own != nullptr ? apply(*own, x) : activate(function, x);
}

Tensor GatedActivation::gradient(const Tensor& x, const Tensor& grad) const {
  return own != nullptr ? apply_backward(*own, x, grad) : activate_backward(function, x, grad);
}

Tensor GatedActivation::forward(const Tensor& inside) const {
  return gated ? times(value(gate_of(inside)), up_of(inside)) : value(inside);
}

Tensor GatedActivation::backward(const Tensor& inside, const Tensor& grad) const {
  if (!gated) return gradient(inside, grad);
  const Tensor gate = gate_of(inside);
  Tensor grad_inside = grad.device().empty(grad.dtype(), inside.shape());
  put_columns(gradient(gate, times(grad, up_of(inside))), grad_inside, 0);
  put_columns(times(grad, value(gate)), grad_inside, columns_of(gate));
  return grad_inside;
}

}  // namespace sim
