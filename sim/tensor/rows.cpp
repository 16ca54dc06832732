#include "sim/tensor/rows.h"

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/tensor/checks.h"
#include "sim/tensor/device.h"

namespace sim {

namespace {

void require_columns(const Tensor& x, std::int64_t begin, std::int64_t count, const char* user) {
  if (x.shape().dimensions() > 0 && begin >= 0 && count >= 0 && begin <= columns_of(x) - count) return;
  refuse({.code = "bad_columns",
          .option = user,
          .numbers = fmt::format("columns {} to {} of {}", begin, begin + count, text_of(x.shape())),
          .rule = "the columns lie inside the last dimension",
          .hint = "a range from 0 to the number of columns"});
}

void require_table(const Tensor& table, const Tensor& ids, const Tensor* rows, const char* user) {
  require_usable(ids, table.device(), user);
  require_i32(ids, user);
  require_read(ids, user);
  const bool fits = table.shape().dimensions() == 2 && ids.shape().dimensions() < Shape::kMaxDimensions;
  require_shapes(fits, {&table, &ids}, user, "the table is [V, H], and ids have at most three dimensions");
  if (rows == nullptr) return;
  require_shapes(rows_of(*rows) == ids.count() && columns_of(*rows) == columns_of(table),
                 {&table, &ids, rows}, user, "there is one row for each id, as wide as the table");
}

}  // namespace

Tensor add_bias(const Tensor& x, const Tensor& bias) {
  require_inputs({&x, &bias}, "add_bias");
  require_shapes(bias.shape() == Shape{columns_of(x)}, {&x, &bias}, "add_bias",
                 "the bias has one element for each column");
  Tensor out = x.device().empty(x.dtype(), x.shape());
  x.device().add_bias(x, bias, out);
  return out;
}

void add_column_sums(const Tensor& x, Tensor& sums) {
  require_inputs({&x}, "add_column_sums");
  require_sums(sums, x, "add_column_sums");
  require_shapes(sums.shape() == Shape{columns_of(x)}, {&x, &sums}, "add_column_sums",
                 "there is one sum for each column");
  require_apart(x, sums, "add_column_sums");
  x.device().add_column_sums(x, sums);
}

Tensor columns(const Tensor& x, std::int64_t begin, std::int64_t count) {
  require_own(x, "columns");
  require_read(x, "columns");
  require_columns(x, begin, count, "columns");
  Tensor out = x.device().empty(x.dtype(), x.shape().with_columns(count));
  x.device().copy_columns(x, begin, out, 0, count);
  return out;
}

void put_columns(const Tensor& x, Tensor& out, std::int64_t begin) {
  require_own(x, "put_columns");
  require_usable(out, x.device(), "put_columns");
  require_same_dtype(x, out, "put_columns");
  require_read(x, "put_columns");
  require_write(out, "put_columns");
  require_columns(out, begin, columns_of(x), "put_columns");
  require_shapes(rows_of(x) == rows_of(out), {&x, &out}, "put_columns",
                 "both tensors have the same number of rows");
  require_apart(x, out, "put_columns");
  x.device().copy_columns(x, 0, out, begin, columns_of(x));
}

Tensor lookup(const Tensor& table, const Tensor& ids, std::int64_t first_id) {
  require_inputs({&table}, "lookup");
  require_table(table, ids, nullptr, "lookup");
  Tensor out = table.device().empty(table.dtype(), ids.shape().with_appended(columns_of(table)));
  table.device().lookup(table, ids, first_id, out);
  return out;
}

void add_to_rows(const Tensor& rows, const Tensor& ids, std::int64_t first_id, Tensor& sums) {
  require_inputs({&rows}, "add_to_rows");
  require_sums(sums, rows, "add_to_rows");
  require_table(sums, ids, &rows, "add_to_rows");
  require_apart(rows, sums, "add_to_rows");
  rows.device().add_to_rows(rows, ids, first_id, sums);
}

}  // namespace sim
