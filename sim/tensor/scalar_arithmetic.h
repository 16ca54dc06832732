#pragma once

/// What a reduction does to two scalars, for kernels.
///
/// Exact   bf16 is computed in f32 and rounded to nearest even; i32 wraps around. max and min ignore a NaN when the other
///         is a number, make the plain NaN of two, and hold -0 below +0: no order changes their bits.
/// Source  CUDA math API, fmaxf; NCCL 2.28.9, reduce_kernel.h.

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "sim/tensor/device.h"

namespace sim {

inline double larger(double a, double b) {
  if (a == b) return std::signbit(a) ? b : a;
  if (a != a && b != b) return std::numeric_limits<double>::quiet_NaN();
  return a > b || b != b ? a : b;
}
inline double smaller(double a, double b) {
  if (a == b) return std::signbit(a) ? a : b;
  if (a != a && b != b) return std::numeric_limits<double>::quiet_NaN();
  return a < b || b != b ? a : b;
}

template <ReduceOp op, typename Scalar>
Scalar combined(Scalar a, Scalar b) {
  if constexpr (op == ReduceOp::max) return static_cast<Scalar>(larger(a, b));
  if constexpr (op == ReduceOp::min) return static_cast<Scalar>(smaller(a, b));
  if constexpr (op == ReduceOp::product) return a * b;
  return a + b;
}

template <ReduceOp op>
bfloat16 combined(bfloat16 a, bfloat16 b) {
  return to_bfloat16(combined<op>(to_float(a), to_float(b)));
}

template <ReduceOp op>
std::int32_t combined(std::int32_t a, std::int32_t b) {
  if constexpr (op == ReduceOp::max) return a > b ? a : b;
  if constexpr (op == ReduceOp::min) return a < b ? a : b;
  const auto x = static_cast<std::uint32_t>(a);
  const auto y = static_cast<std::uint32_t>(b);
  if constexpr (op == ReduceOp::product) return static_cast<std::int32_t>(x * y);
  return static_cast<std::int32_t>(x + y);
}

template <ReduceOp op>
Field combined(const Field& a, const Field& b) {
  if constexpr (op == ReduceOp::max) return max(a, b);
  if constexpr (op == ReduceOp::min) return min(a, b);
  if constexpr (op == ReduceOp::product) return a * b;
  return a + b;
}

/// numerator / denominator, rounded once to the scalar.
template <typename Scalar>
Scalar quotient_of(Ratio ratio) {
  const auto numerator = static_cast<double>(ratio.numerator);
  const auto denominator = static_cast<double>(ratio.denominator);
  const double nearest = numerator / denominator;
  if constexpr (std::is_same_v<Scalar, double>) return nearest;
  // To f32 by a double that is rounded to odd, so that it never is a tie that the quotient was not.
  const double rest = std::fma(-nearest, denominator, numerator);
  const bool is_odd = std::bit_cast<std::uint64_t>(nearest) % 2 == 1;
  if (rest == 0 || is_odd) return static_cast<Scalar>(nearest);
  const double towards = std::copysign(std::numeric_limits<double>::infinity(), rest);
  return static_cast<Scalar>(std::nextafter(nearest, towards));
}

/// Multiplies by one ratio, worked out once. Its numbers are as device.h says.
template <typename Scalar>
class Scaling {
 public:
  explicit Scaling(Ratio ratio) : factor_(quotient_of<Scalar>(ratio)) {}
  Scalar operator()(Scalar x) const { return x * factor_; }

 private:
  Scalar factor_;
};

template <>
class Scaling<bfloat16> {
 public:
  explicit Scaling(Ratio ratio) : scaling_(ratio) {}
  bfloat16 operator()(bfloat16 x) const { return to_bfloat16(scaling_(to_float(x))); }

 private:
  Scaling<float> scaling_;
};

template <>
class Scaling<std::int32_t> {
 public:
  explicit Scaling(Ratio ratio) : ratio_(ratio) {}
  std::int32_t operator()(std::int32_t x) const {
    return static_cast<std::int32_t>(x * ratio_.numerator / ratio_.denominator);
  }

 private:
  Ratio ratio_;
};

template <>
class Scaling<Field> {
 public:
  explicit Scaling(Ratio ratio) : factor_(Field::of(ratio.numerator) / Field::of(ratio.denominator)) {}
  Field operator()(const Field& x) const { return x * factor_; }

 private:
  Field factor_;
};

/// Calls visit with a constant of the operation: visit(std::integral_constant<ReduceOp, ReduceOp::sum>()). An average
/// is a sum here.
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
