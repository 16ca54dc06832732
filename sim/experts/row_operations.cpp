#include "sim/experts/row_operations.h"

#include "sim/tensor/checks.h"
#include "sim/tensor/comparison.h"
#include "sim/tensor/matmul.h"
#include "sim/tensor/ops.h"
#include "sim/tensor/row_work.h"
#include "sim/tensor/rows.h"

namespace sim {

namespace {

void require_matrix(const Tensor& x, const char* user) {
  require_own(x, user);
  require_shapes(x.shape().dimensions() == 2, {&x}, user, "rows and columns are two dimensions");
}

Tensor ones(const Tensor& like, const Shape& shape) { return filled(like.device(), like.dtype(), shape, 1); }

/// The product of matrices of which at least one is a single row or column.
Tensor product(const Tensor& a, const Tensor& b) {
  const RowWork no_product_of_matrices;
  return matmul(a, b);
}

}  // namespace

Tensor row_sums(const Tensor& x) {
  require_matrix(x, "row_sums");
  return product(x, ones(x, {x.shape()[1], 1})).flat();
}

Tensor row_dots(const Tensor& x, const Tensor& y) {
  require_matrix(x, "row_dots");
  require_own(y, "row_dots");
  require_same_shape(x, y, "row_dots");
  const std::int64_t rows = x.shape()[0], columns = x.shape()[1];
  return product(x.reshaped({rows, 1, columns}), y.reshaped({rows, columns, 1})).flat();
}

Tensor scaled_rows(const Tensor& x, const Tensor& factors) {
  require_matrix(x, "scaled_rows");
  require_own(factors, "scaled_rows");
  const std::int64_t rows = x.shape()[0], columns = x.shape()[1];
  require_shapes(factors.count() == rows, {&x, &factors}, "scaled_rows", "there is one factor for each row");
  const Tensor scaled = product(x.reshaped({rows, columns, 1}), factors.reshaped({rows, 1, 1}));
  return scaled.reshaped({rows, columns});
}

Tensor products_with_row(const Tensor& factors, const Tensor& row) {
  return product(factors.reshaped({factors.count(), 1}), row.reshaped({1, row.count()}));
}

Tensor dots_with_row(const Tensor& x, const Tensor& row) {
  require_matrix(x, "dots_with_row");
  require_own(row, "dots_with_row");
  return product(x, row.reshaped({row.count(), 1})).flat();
}

Tensor repeated_columns(const Tensor& values, std::int64_t columns) {
  return product(values.reshaped({values.count(), 1}), ones(values, {1, columns}));
}

Tensor repeated_rows(const Tensor& values, std::int64_t rows) {
  return product(ones(values, {rows, 1}), values.reshaped({1, values.count()}));
}

Tensor masked(const Tensor& mask, const Tensor& x) {
  return select(mask, x, filled(x.device(), x.dtype(), x.shape(), 0));
}

Tensor take_elements(const Tensor& x, const Tensor& ids) {
  return lookup(x.reshaped({x.count(), 1}), ids.flat(), 0).reshaped(ids.shape());
}

Tensor put_elements(const Tensor& values, const Tensor& ids, std::int64_t rows, std::int64_t columns) {
  Tensor sums = filled(values.device(), sum_dtype(values.dtype()), {rows * columns, 1}, 0);
  add_to_rows(values.reshaped({values.count(), 1}), ids.flat(), 0, sums);
  return cast(sums, values.dtype()).reshaped({rows, columns});
}

}  // namespace sim
