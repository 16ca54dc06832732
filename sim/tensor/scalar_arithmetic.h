#pragma once

/// The reduction of two scalars, for kernels: that of floats and i32 comes from float_arithmetic.h, and
/// that of the field is defined here.

#include <type_traits>

#include "sim/tensor/device.h"
#include "sim/tensor/float_arithmetic.h"

namespace sim {

template <ReduceOp op>
Field combined(const Field& a, const Field& b) {
  if constexpr (op == ReduceOp::max) return max(a, b);
  if constexpr (op == ReduceOp::min) return min(a, b);
  if constexpr (op == ReduceOp::product) return a * b;
  return a + b;
}

/// The order is that of max().
inline bool holds(Comparison comparison, const Field& a, const Field& b) {
  if (a == b) return comparison == Comparison::equal;
  if (comparison == Comparison::equal) return false;
  return max(a, b) == (comparison == Comparison::less ? b : a);
}

template <>
class Scaling<Field> {
 public:
  explicit Scaling(Ratio ratio) : factor_(Field::of(ratio.numerator) / Field::of(ratio.denominator)) {}
  Field operator()(const Field& x) const { return x * factor_; }

 private:
  Field factor_;
};

/// Calls visit with a constant for the operation, such as std::integral_constant<ReduceOp,
/// ReduceOp::sum>(). An average counts as a sum here.
template <typename Visit>
void with_reduce_op(ReduceOp op, Visit&& visit) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::average:
      return visit(std::integral_constant<ReduceOp, ReduceOp::sum>());
    case ReduceOp::max:
      return visit(std::integral_constant<ReduceOp, ReduceOp::max>());
    case ReduceOp::min:
      return visit(std::integral_constant<ReduceOp, ReduceOp::min>());
    case ReduceOp::product:
      return visit(std::integral_constant<ReduceOp, ReduceOp::product>());
  }
}

}  // namespace sim
