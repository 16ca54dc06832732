#include "sim/tensor/permutation.h"

#include <algorithm>
#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/tensor/checks.h"
#include "sim/tensor/device.h"

namespace sim {

Tensor permuted(const Tensor& x, std::array<int, 4> order) {
  require_own(x, "permuted");
  require_read(x, "permuted");
  if (x.shape().dimensions() != 4 ||
      !std::is_permutation(order.begin(), order.end(), std::array{0, 1, 2, 3}.begin())) {
    refuse({.code = "bad_permutation",
            .option = "permuted",
            .numbers = fmt::format("{} in the order {}, {}, {}, {}", text_of(x.shape()), order[0], order[1],
                                   order[2], order[3]),
            .rule = "the tensor has four dimensions, and the order names each of them once",
            .hint = "reshaped() to four dimensions, and an order such as {1, 2, 0, 3}"});
  }
  const auto size = [&](std::size_t i) { return x.shape()[static_cast<std::size_t>(order[i])]; };
  Tensor out = x.device().empty(x.dtype(), {size(0), size(1), size(2), size(3)});
  x.device().permute(x, order, out);
  return out;
}

}  // namespace sim
