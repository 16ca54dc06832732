// The kernels of CpuKernels that move and add whole rows and columns.

#include <algorithm>
#include <cstring>

#include "sim/base/kernel_options.h"
#include "sim/base/vectorised.h"
#include "sim/cpu/cpu_kernels.h"
#include "sim/cpu/elements.h"
#include "sim/tensor/checks.h"
#include "sim/tensor/kernel_places.h"

namespace sim {

namespace {

template <typename Scalar>
using SumOf = typename Arithmetic<Scalar>::Wide;

void copy_elements(const std::byte* from, std::byte* to, std::int64_t count, std::int64_t size) {
  if (count > 0) std::memcpy(to, from, static_cast<std::size_t>(count * size));
}

/// sums(f) += row(f)
template <typename Scalar>
void add_row(const Arithmetic<Scalar>& number, const Scalar* __restrict row, std::int64_t columns,
             SumOf<Scalar>* __restrict sums) {
  for (std::int64_t f = 0; f < columns; ++f) sums[f] = sums[f] + number.load(row[f]);
}

}  // namespace

void CpuKernels::add_bias(const Tensor& x, const Tensor& bias, const Tensor& out) const {
  const std::int64_t columns = columns_of(x);
  const std::int64_t rows = rows_of(x);
  with_number(x.dtype(), [&]<typename Scalar>(const Arithmetic<Scalar>& number) {
    const Scalar* from = elements<Scalar>(x);
    const Scalar* added = elements<Scalar>(bias);
    Scalar* to = elements<Scalar>(out);
    vectorised([&] {
      for (std::int64_t t = 0; t < rows; ++t) {
        for (std::int64_t f = 0; f < columns; ++f) {
          to[t * columns + f] = number.store(number.load(from[t * columns + f]) + number.load(added[f]));
        }
      }
    });
  });
}

void CpuKernels::add_column_sums(const Tensor& x, const Tensor& sums) const {
  const std::int64_t columns = columns_of(x);
  const std::int64_t rows = rows_of(x);
  with_number(x.dtype(), [&]<typename Scalar>(const Arithmetic<Scalar>& number) {
    const Scalar* from = elements<Scalar>(x);
    auto* to = elements<SumOf<Scalar>>(sums);
    vectorised([&] {
      for (std::int64_t t = 0; t < rows; ++t) add_row(number, from + t * columns, columns, to);
    });
  });
}

void CpuKernels::copy_columns(const Tensor& from, const ColumnParameters& part, const Tensor& to) const {
  const std::int64_t size = size_of(from.dtype());
  for (std::int64_t t = 0; t < rows_of(from); ++t) {
    copy_elements(from.data() + (t * columns_of(from) + part.from_column) * size,
                  to.data() + (t * columns_of(to) + part.to_column) * size, part.columns, size);
  }
}

void CpuKernels::lookup(const Tensor& table, const Tensor& ids, std::int64_t first_id,
                        const Tensor& out) const {
  const std::int64_t columns = columns_of(table);
  const std::int64_t size = size_of(table.dtype());
  const std::int32_t* id = elements<std::int32_t>(ids);
  for (std::int64_t t = 0; t < ids.count(); ++t) {
    std::byte* to = out.data() + t * columns * size;
    const std::int64_t row = row_of(id[t], first_id, rows_of(table));
    if (row < 0) {
      std::fill_n(to, columns * size, std::byte{0});
    } else {
      copy_elements(table.data() + row * columns * size, to, columns, size);
    }
  }
}

void CpuKernels::add_to_rows(const Tensor& rows, const Tensor& ids, std::int64_t first_id,
                             const Tensor& table) const {
  const std::int64_t columns = columns_of(table);
  const std::int32_t* id = elements<std::int32_t>(ids);
  with_number(rows.dtype(), [&]<typename Scalar>(const Arithmetic<Scalar>& number) {
    const Scalar* from = elements<Scalar>(rows);
    auto* to = elements<SumOf<Scalar>>(table);
    vectorised([&] {
      for (std::int64_t t = 0; t < ids.count(); ++t) {
        const std::int64_t row = row_of(id[t], first_id, rows_of(table));
        if (row >= 0) add_row(number, from + t * columns, columns, to + row * columns);
      }
    });
  });
}

void CpuKernels::permute(const Tensor& from, std::array<int, 4> order, const Tensor& to) const {
  std::array<std::int64_t, 4> steps{};  // strides of the dimensions of `from`, in elements
  std::int64_t step = 1;
  for (std::size_t i = 4; i-- > 0; step *= from.shape()[i]) steps[i] = step;
  const auto step_of = [&](std::size_t i) { return steps[static_cast<std::size_t>(order[i])]; };
  const std::int64_t size = size_of(from.dtype());
  std::byte* next = to.data();
  for (std::int64_t i = 0; i < to.shape()[0]; ++i) {
    for (std::int64_t j = 0; j < to.shape()[1]; ++j) {
      for (std::int64_t k = 0; k < to.shape()[2]; ++k) {
        const std::int64_t first = i * step_of(0) + j * step_of(1) + k * step_of(2);
        if (step_of(3) == 1) {
          copy_elements(from.data() + first * size, next, to.shape()[3], size);
          next += to.shape()[3] * size;
          continue;
        }
        for (std::int64_t l = 0; l < to.shape()[3]; ++l, next += size) {
          copy_elements(from.data() + (first + l * step_of(3)) * size, next, 1, size);
        }
      }
    }
  }
}

}  // namespace sim
