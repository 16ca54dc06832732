#include "sim/tensor/comparison.h"

#include "sim/tensor/checks.h"
#include "sim/tensor/device.h"

namespace sim {

namespace {

/// Checks two operands of any dtype.
void require_operands(const Tensor& a, const Tensor& b, const char* user) {
  require_own(a, user);
  require_usable(b, a.device(), user);
  require_same_dtype(a, b, user);
  require_same_shape(a, b, user);
  require_read(a, user);
  require_read(b, user);
}

void require_rows(const Tensor& x, const char* user) {
  require_inputs({&x}, user);
  require_shapes(x.shape().dimensions() > 0, {&x}, user,
                 "x has at least one dimension, and the last one is a row");
}

}  // namespace

Tensor compare(Comparison comparison, const Tensor& a, const Tensor& b) {
  require_operands(a, b, "compare");
  Tensor mask = a.device().empty(DType::i32, a.shape());
  a.device().compare(comparison, a, b, mask);
  return mask;
}

Tensor select(const Tensor& mask, const Tensor& a, const Tensor& b) {
  require_operands(a, b, "select");
  require_usable(mask, a.device(), "select");
  require_i32(mask, "select");
  require_same_shape(mask, a, "select");
  require_read(mask, "select");
  Tensor out = a.device().empty(a.dtype(), a.shape());
  a.device().select(mask, a, b, out);
  return out;
}

Tensor row_max(const Tensor& x) {
  require_rows(x, "row_max");
  Tensor maxima = x.device().empty(sum_dtype(x.dtype()), {rows_of(x)});
  x.device().row_max(x, columns_of(x), maxima);
  return maxima;
}

Tensor argmax(const Tensor& x) {
  require_rows(x, "argmax");
  Tensor columns = x.device().empty(DType::i32, {rows_of(x)});
  x.device().argmax(x, columns);
  return columns;
}

}  // namespace sim
