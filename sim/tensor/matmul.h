#pragma once

/// Products of matrices, for example matmul(x, transposed(weight)).
///
/// Shapes  [.., m, k] times [.., k, n] gives [.., m, n]. A transposed operand is stored with its last two
///         dimensions exchanged. The dimensions before the last two are batches, and are the same for
///         both operands.
/// Exact   each element adds its products for k = 0, 1, 2, ... with one fma each. bf16 adds in f32 and
///         rounds once.
/// Errors  those of checks.h.

#include "sim/tensor/tensor.h"

namespace sim {

struct Operand {
  Operand(const Tensor& operand, bool is_transposed = false) : tensor(operand), transposed(is_transposed) {}
  const Tensor& tensor;
  bool transposed;
};
inline Operand transposed(const Tensor& tensor) { return {tensor, true}; }

Tensor matmul(Operand a, Operand b);
/// Adds the product a b to sums. sums is f32 if a and b are bf16, otherwise it has their dtype.
void add_matmul(Operand a, Operand b, Tensor& sums);

}  // namespace sim
