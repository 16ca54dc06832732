#include "sim/tensor/softmax.h"

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/tensor/checks.h"
#include "sim/tensor/device.h"

namespace sim {

namespace {

void require_divisor(const Tensor& x, std::int64_t divisor, const char* user) {
  require_shapes(x.shape().dimensions() >= 2, {&x}, user, "scores are [.., queries, keys]");
  if (divisor >= 1 && divisor <= (std::int64_t{1} << 24)) return;
  refuse({.code = "bad_divisor",
          .option = user,
          .numbers = fmt::format("a divisor of {}", divisor),
          .rule = "scores are divided by the square root of a divisor from 1 to 16,777,216",
          .hint = "the head dimension, or 1 for no scaling"});
}

}  // namespace

Tensor softmax(const Tensor& x, std::int64_t divisor, bool causal) {
  require_inputs({&x}, "softmax");
  require_divisor(x, divisor, "softmax");
  Tensor out = x.device().empty(x.dtype(), x.shape());
  x.device().softmax(x, divisor, causal, out);
  return out;
}

Tensor softmax_backward(const Tensor& p, const Tensor& grad, std::int64_t divisor) {
  require_inputs({&p, &grad}, "softmax_backward");
  require_same_shape(p, grad, "softmax_backward");
  require_divisor(p, divisor, "softmax_backward");
  Tensor out = p.device().empty(p.dtype(), p.shape());
  p.device().softmax_backward(p, grad, divisor, out);
  return out;
}

}  // namespace sim
