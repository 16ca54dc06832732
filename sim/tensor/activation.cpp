#include "sim/tensor/activation.h"

#include "sim/tensor/checks.h"

namespace sim {

Tensor activate(Activation function, const Tensor& x) {
  require_inputs({&x}, "activate");
  Tensor out = x.device().empty(x.dtype(), x.shape());
  x.device().activate(function, x, out);
  return out;
}

Tensor activate_backward(Activation function, const Tensor& x, const Tensor& grad) {
  require_inputs({&x, &grad}, "activate_backward");
  require_same_shape(x, grad, "activate_backward");
  Tensor out = x.device().empty(x.dtype(), x.shape());
  x.device().activate_backward(function, x, grad, out);
  return out;
}

}  // namespace sim
