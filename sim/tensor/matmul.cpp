#include "sim/tensor/matmul.h"

#include <algorithm>
#include <array>

#include "sim/tensor/checks.h"
#include "sim/tensor/device.h"

namespace sim {

namespace {

std::int64_t size_at(const Operand& operand, std::size_t from_last) {
  const Shape& shape = operand.tensor.shape();
  return shape[shape.dimensions() - (operand.transposed ? 3 - from_last : from_last)];
}

/// Returns the shape of the product. Refuses operands that do not fit together.
Shape product_shape(const Operand& a, const Operand& b, const char* user) {
  require_inputs({&a.tensor, &b.tensor}, user);
  const Shape& left = a.tensor.shape();
  const Shape& right = b.tensor.shape();
  bool fits = left.dimensions() >= 2 && left.dimensions() == right.dimensions();
  for (std::size_t i = 0; fits && i + 2 < left.dimensions(); ++i) fits = left[i] == right[i];
  fits = fits && size_at(a, 1) == size_at(b, 2);
  require_shapes(fits, {&a.tensor, &b.tensor}, user,
                 "the operands are [.., m, k] and [.., k, n], with the same batches");
  const std::int64_t m = size_at(a, 2);
  const std::int64_t n = size_at(b, 1);
  if (left.dimensions() == 2) return {m, n};
  return left.dimensions() == 3 ? Shape{left[0], m, n} : Shape{left[0], left[1], m, n};
}

}  // namespace

Tensor matmul(Operand a, Operand b) {
  const Shape shape = product_shape(a, b, "matmul");
  Tensor out = a.tensor.device().empty(a.tensor.dtype(), shape);
  out.device().matmul(a.tensor, a.transposed, b.tensor, b.transposed, out, false);
  return out;
}

void add_matmul(Operand a, Operand b, Tensor& sums) {
  const Shape shape = product_shape(a, b, "add_matmul");
  require_sums(sums, a.tensor, "add_matmul");
  require_shapes(sums.shape() == shape, {&a.tensor, &b.tensor, &sums}, "add_matmul",
                 "the product of [.., m, k] and [.., k, n] is added to [.., m, n]");
  require_apart(a.tensor, sums, "add_matmul");
  require_apart(b.tensor, sums, "add_matmul");
  sums.device().matmul(a.tensor, a.transposed, b.tensor, b.transposed, sums, true);
}

}  // namespace sim
