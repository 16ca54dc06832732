#include "sim/experts/token_rows.h"

#include <cstring>
#include <span>

#include "sim/tensor/checks.h"
#include "sim/tensor/matmul.h"
#include "sim/tensor/ops.h"
#include "sim/tensor/rows.h"

namespace sim {

Tensor tensor_of_numbers(Device& device, const std::vector<std::int64_t>& numbers) {
  const std::vector<std::int32_t> values(numbers.begin(), numbers.end());
  return from_host(device, DType::i32, {std::ssize(values)}, std::as_bytes(std::span(values)));
}

std::vector<std::int64_t> numbers_of(const Tensor& tensor) {
  require_i32(tensor, "numbers_of");
  const std::vector<std::byte> bytes = host_bytes(tensor);
  std::vector<std::int32_t> values(bytes.size() / sizeof(std::int32_t));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return {values.begin(), values.end()};
}

Tensor taken_rows(const Tensor& x, const std::vector<std::int64_t>& numbers) {
  return lookup(x, tensor_of_numbers(x.device(), numbers), 0);
}

Tensor added_rows(const Tensor& rows, const std::vector<std::int64_t>& numbers, std::int64_t count) {
  const DType dtype = sum_dtype(rows.dtype());
  Tensor sums = filled(rows.device(), dtype, rows.shape().with_rows(count), 0);
  add_to_rows(rows, tensor_of_numbers(rows.device(), numbers), 0, sums);
  return dtype == rows.dtype() ? sums : cast(sums, rows.dtype());
}

Tensor scaled_rows(const Tensor& x, const Tensor& factors) {
  const std::int64_t rows = rows_of(x), width = columns_of(x);
  return matmul(x.reshaped({rows, width, 1}), factors.reshaped({rows, 1, 1})).reshaped(x.shape());
}

Tensor row_dots(const Tensor& a, const Tensor& b) {
  const std::int64_t rows = rows_of(a), width = columns_of(a);
  return matmul(a.reshaped({rows, 1, width}), b.reshaped({rows, width, 1})).reshaped({rows, 1});
}

}  // namespace sim
