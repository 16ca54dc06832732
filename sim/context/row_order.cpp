#include "sim/context/row_order.h"

#include <span>

#include "sim/tensor/ops.h"
#include "sim/tensor/rows.h"

namespace sim {

Tensor reordered_rows(const Tensor& x, const std::vector<std::int64_t>& order) {
  const std::vector<std::int32_t> ids(order.begin(), order.end());
  return lookup(x, from_host(x.device(), DType::i32, {std::ssize(ids)}, std::as_bytes(std::span(ids))), 0);
}

}  // namespace sim
