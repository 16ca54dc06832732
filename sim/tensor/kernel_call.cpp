#include "sim/tensor/kernel_call.h"

#include "sim/tensor/checks.h"

namespace sim {

bool accumulates(const KernelCall& call) {
  if (call.kernel == Kernel::matmul) return std::get<MatmulParameters>(call.parameters).accumulate;
  return call.kernel == Kernel::add_column_sums || call.kernel == Kernel::add_to_rows;
}

std::int64_t work_of(const KernelCall& call) {
  switch (call.kernel) {
    case Kernel::poison:
      return 0;
    case Kernel::fill:
    case Kernel::lookup:
    case Kernel::scale_by:
      return call.outputs.front()->count();
    case Kernel::fold: {
      std::int64_t elements = 0;
      for (const Tensor* input : call.inputs) elements += input->count();
      return elements;
    }
    case Kernel::matmul: {
      const Shape& a = call.inputs.front()->shape();
      const bool is_transposed = std::get<MatmulParameters>(call.parameters).a_transposed;
      return call.outputs.front()->count() * a[a.dimensions() - (is_transposed ? 2 : 1)];
    }
    case Kernel::copy_columns:
      return rows_of(*call.inputs.front()) * std::get<ColumnParameters>(call.parameters).columns;
    default:
      return call.inputs.front()->count();
  }
}

}  // namespace sim
