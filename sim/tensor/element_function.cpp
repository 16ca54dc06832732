#include "sim/tensor/element_function.h"

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/tensor/checks.h"
#include "sim/tensor/device.h"

namespace sim {

namespace {

void require_function(const ElementFunction& function, const char* user) {
  const bool is_whole = function.value_of_f64 && function.value_of_f32 && function.derivative_of_f64 &&
                        function.derivative_of_f32;
  if (is_whole && !function.name.empty()) return;
  refuse(
      {.code = "bad_function",
       .option = user,
       .numbers = fmt::format("the function '{}'{}", function.name, is_whole ? "" : ", which lacks a part"),
       .rule = "a function has a name, and a value and a derivative for f64 and for f32",
       .hint = "the result of element_function(name, value, derivative), with a name"});
}

}  // namespace

Tensor apply(const ElementFunction& function, const Tensor& x) {
  require_function(function, "apply");
  require_inputs({&x}, "apply");
  Tensor out = x.device().empty(x.dtype(), x.shape());
  x.device().apply(function, x, out);
  return out;
}

Tensor apply_backward(const ElementFunction& function, const Tensor& x, const Tensor& grad) {
  require_function(function, "apply_backward");
  require_inputs({&x, &grad}, "apply_backward");
  require_same_shape(x, grad, "apply_backward");
  Tensor out = x.device().empty(x.dtype(), x.shape());
  x.device().apply_backward(function, x, grad, out);
  return out;
}

}  // namespace sim
