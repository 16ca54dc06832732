// The kernel of CpuKernels that multiplies matrices.

#include <cstddef>
#include <vector>

#include "sim/base/kernel_options.h"
#include "sim/cpu/cpu_kernels.h"
#include "sim/cpu/elements.h"
#include "sim/cpu/matrix_product.h"

namespace sim {

namespace {

std::size_t size_at(const Tensor& tensor, std::size_t from_last) {
  return static_cast<std::size_t>(tensor.shape()[tensor.shape().dimensions() - from_last]);
}

template <typename Scalar>
Strided<Scalar> matrix(const Tensor& tensor, bool transposed, std::size_t batch) {
  const std::size_t rows = size_at(tensor, 2);
  const std::size_t columns = size_at(tensor, 1);
  const Scalar* first = elements<Scalar>(tensor) + batch * rows * columns;
  return transposed ? Strided<Scalar>{first, 1, columns} : Strided<Scalar>{first, columns, 1};
}

}  // namespace

void CpuKernels::matmul(const Tensor& a, const Tensor& b, MatmulParameters form, const Tensor& out) const {
  const ProductSizes sizes = {size_at(out, 2), size_at(out, 1), size_at(a, form.a_transposed ? 2 : 1)};
  const std::size_t block = sizes.rows * sizes.columns;
  const std::size_t batches = block == 0 ? 0 : static_cast<std::size_t>(out.count()) / block;
  with_computing_scalar(a.dtype(), [&]<typename Scalar>(Scalar) {
    using Sum = std::conditional_t<std::is_same_v<Scalar, bfloat16>, float, Scalar>;
    if (!form.accumulate) std::fill_n(elements<std::byte>(out), out.bytes(), std::byte{0});
    std::vector<Sum> sums;  // float sums of a bf16 output, which is rounded at the end
    for (std::size_t batch = 0; batch < batches; ++batch) {
      const auto left = matrix<Scalar>(a, form.a_transposed, batch);
      const auto right = matrix<Scalar>(b, form.b_transposed, batch);
      if constexpr (std::is_same_v<Scalar, bfloat16>) {
        if (out.dtype() == DType::bf16) {
          bfloat16* rounded = elements<bfloat16>(out) + batch * block;
          sums.resize(block);
          std::transform(rounded, rounded + block, sums.begin(),
                         [](bfloat16 value) { return to_float(value); });
          add_matrix_product(sizes, left, right, sums.data());
          std::transform(sums.begin(), sums.end(), rounded, [](float sum) { return to_bfloat16(sum); });
          continue;
        }
      }
      add_matrix_product(sizes, left, right, elements<Sum>(out) + batch * block);
    }
  });
}

}  // namespace sim
