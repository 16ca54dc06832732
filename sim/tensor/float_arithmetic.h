#pragma once

/// The arithmetic of kernels for f64, f32 and bf16, and the reductions of f16 and whole numbers, too. CPUs
/// and CUDA compile the same lines.
///
///   Arithmetic<double>, <float>   compute in the type itself, with the functions of
///                                 sim/base/elementary.h
///   Arithmetic<bfloat16>          computes in float, and rounds when a value is stored
///
/// Exact   every function is a fixed sequence of operations that are rounded once each; only calls of fma
///         fuse operations. In reductions bf16 and f16 are computed in f32 and rounded to nearest even, and
///         whole numbers wrap around. max and min ignore a NaN if the other value is a number, give the plain
///         NaN for two NaNs, and order -0 below +0, so no order of operands changes their bits.
/// Source  Hendrycks and Gimpel 2016 (GELU, both forms); Elfwing et al. 2018 (SiLU); CUDA math API, fmaxf;
///         NCCL 2.28.9, reduce_kernel.h.

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "sim/base/bfloat16.h"
#include "sim/base/elementary.h"
#include "sim/base/float16.h"
#include "sim/base/host_device.h"
#include "sim/tensor/kernel_parameters.h"
#include "sim/tensor/reduce_op.h"

namespace sim {

template <typename Float>
SIM_HOST_DEVICE Float larger(Float a, Float b) {
  if (a == b) return std::signbit(a) ? b : a;
  if (a != a && b != b) return std::numeric_limits<Float>::quiet_NaN();
  return a > b || b != b ? a : b;
}
template <typename Float>
SIM_HOST_DEVICE Float smaller(Float a, Float b) {
  if (a == b) return std::signbit(a) ? a : b;
  if (a != a && b != b) return std::numeric_limits<Float>::quiet_NaN();
  return a < b || b != b ? a : b;
}

template <ReduceOp op, typename Whole>
SIM_HOST_DEVICE Whole combined_whole(Whole a, Whole b) {
  if constexpr (op == ReduceOp::max) return a > b ? a : b;
  if constexpr (op == ReduceOp::min) return a < b ? a : b;
  const auto x = static_cast<std::uint64_t>(a);
  const auto y = static_cast<std::uint64_t>(b);
  if constexpr (op == ReduceOp::product) return static_cast<Whole>(x * y);
  return static_cast<Whole>(x + y);
}

template <ReduceOp op, typename Scalar>
SIM_HOST_DEVICE Scalar combined(Scalar a, Scalar b) {
  if constexpr (std::is_integral_v<Scalar>) return combined_whole<op>(a, b);
  if constexpr (op == ReduceOp::max) return larger(a, b);
  if constexpr (op == ReduceOp::min) return smaller(a, b);
  if constexpr (op == ReduceOp::product) return a * b;
  return a + b;
}

/// The floats of two bytes, which are computed in f32.
template <typename Scalar>
concept ShortFloat = std::is_same_v<Scalar, bfloat16> || std::is_same_v<Scalar, float16>;

template <ShortFloat Scalar>
SIM_HOST_DEVICE Scalar short_of(float value) {
  if constexpr (std::is_same_v<Scalar, bfloat16>)
    return to_bfloat16(value);
  else
    return to_float16(value);
}

template <ReduceOp op, ShortFloat Scalar>
SIM_HOST_DEVICE Scalar combined(Scalar a, Scalar b) {
  return short_of<Scalar>(combined<op>(to_float(a), to_float(b)));
}

/// Whether a is less than b, equal to it, or greater. With a NaN every comparison is false.
template <typename Scalar>
SIM_HOST_DEVICE bool holds(Comparison comparison, Scalar a, Scalar b) {
  if (comparison == Comparison::less) return a < b;
  if (comparison == Comparison::greater) return a > b;
  return a == b;
}

SIM_HOST_DEVICE inline bool holds(Comparison comparison, bfloat16 a, bfloat16 b) {
  return holds(comparison, to_float(a), to_float(b));
}

/// Returns numerator / denominator, rounded once to the scalar.
template <typename Scalar>
Scalar quotient_of(Ratio ratio) {
  const auto numerator = static_cast<double>(ratio.numerator);
  const auto denominator = static_cast<double>(ratio.denominator);
  const double nearest = numerator / denominator;
  if constexpr (std::is_same_v<Scalar, double>) return nearest;
  // f32 is reached through a double that is rounded to odd, so it is never a tie unless the quotient
  // itself was one.
  const double rest = std::fma(-nearest, denominator, numerator);
  const bool is_odd = std::bit_cast<std::uint64_t>(nearest) % 2 == 1;
  if (rest == 0 || is_odd) return static_cast<Scalar>(nearest);
  const double towards = std::copysign(std::numeric_limits<double>::infinity(), rest);
  return static_cast<Scalar>(std::nextafter(nearest, towards));
}

/// Multiplies by one ratio, which is computed once. The rounding is as device.h says for scale.
template <typename Scalar>
class Scaling {
 public:
  explicit Scaling(Ratio ratio) : factor_(quotient_of<Scalar>(ratio)) {}
  SIM_HOST_DEVICE Scalar operator()(Scalar x) const { return x * factor_; }

 private:
  Scalar factor_;
};

template <ShortFloat Scalar>
class Scaling<Scalar> {
 public:
  explicit Scaling(Ratio ratio) : scaling_(ratio) {}
  SIM_HOST_DEVICE Scalar operator()(Scalar x) const { return short_of<Scalar>(scaling_(to_float(x))); }

 private:
  Scaling<float> scaling_;
};

template <typename Whole>
requires std::is_integral_v<Whole>
class Scaling<Whole> {
 public:
  explicit Scaling(Ratio ratio) : ratio_(ratio) {}
  SIM_HOST_DEVICE Whole operator()(Whole x) const {
    return static_cast<Whole>(x * ratio_.numerator / ratio_.denominator);
  }

 private:
  Ratio ratio_;
};

/// Converts between floats, and from i32 to any float, rounding once.
template <typename To, typename From>
SIM_HOST_DEVICE To rounded_to(From value) {
  if constexpr (std::is_same_v<To, From>)
    return value;
  else if constexpr (std::is_same_v<From, bfloat16>)
    return rounded_to<To>(to_float(value));
  else if constexpr (std::is_same_v<To, bfloat16>)
    return to_bfloat16(static_cast<double>(value));
  else
    return static_cast<To>(value);
}

template <typename T>
class FloatArithmetic {
 public:
  using Wide = T;

  T of(Ratio ratio) const { return quotient_of<T>(ratio); }
  SIM_HOST_DEVICE T fma(T a, T b, T c) const { return elementary::fma(a, b, c); }
  SIM_HOST_DEVICE T exp(T x) const { return elementary::exp(x); }
  SIM_HOST_DEVICE T log(T x) const { return elementary::log(x); }
  SIM_HOST_DEVICE T rsqrt(T x) const { return elementary::rsqrt(x); }
  SIM_HOST_DEVICE T sqrt(T x) const { return std::sqrt(x); }
  /// Returns the factor by which a gradient is scaled: c if it is below 1, else 1.
  SIM_HOST_DEVICE T clipped(T c) const { return c < 1 ? c : T{1}; }
  /// Returns the larger of a and b. b may not be NaN, and is returned if a is NaN.
  SIM_HOST_DEVICE T larger(T a, T b) const { return a > b ? a : b; }
  SIM_HOST_DEVICE T least() const { return -std::numeric_limits<T>::infinity(); }

  /// Returns f(x).
  template <Activation function>
  SIM_HOST_DEVICE T activation(T x) const {
    if constexpr (function == Activation::gelu_tanh) {
      return kHalf * x * (1 + elementary::tanh(gelu_argument(x)));
    } else if constexpr (function == Activation::gelu_erf) {
      return kHalf * x * (1 + elementary::erf(x * kRootHalf));
    } else {
      return x / (1 + elementary::exp(-x));
    }
  }

  /// Returns f'(x).
  template <Activation function>
  SIM_HOST_DEVICE T derivative(T x) const {
    if constexpr (function == Activation::gelu_tanh) {
      const T t = elementary::tanh(gelu_argument(x));
      const T inner = kRootTwoByPi * elementary::fma(3 * kCubic * x, x, T{1});
      return elementary::fma(kHalf * x * (1 - t * t), inner, kHalf * (1 + t));
    } else if constexpr (function == Activation::gelu_erf) {
      const T density = kRootOneByTwoPi * elementary::exp(-kHalf * x * x);
      return elementary::fma(x, density, elementary::fma(kHalf, elementary::erf(x * kRootHalf), kHalf));
    } else {
      const T s = 1 / (1 + elementary::exp(-x));
      return s * elementary::fma(x, 1 - s, T{1});
    }
  }

 private:
  static constexpr T kHalf = T{0.5};
  static constexpr T kRootHalf = T(0.70710678118654752440L);
  static constexpr T kRootTwoByPi = T(0.79788456080286535588L);
  static constexpr T kRootOneByTwoPi = T(0.39894228040143267794L);
  static constexpr T kCubic = T(0.044715L);

  SIM_HOST_DEVICE static T gelu_argument(T x) { return kRootTwoByPi * elementary::fma(kCubic * x * x, x, x); }
};

template <typename Scalar>
class Arithmetic;

template <>
class Arithmetic<double> : public FloatArithmetic<double> {
 public:
  SIM_HOST_DEVICE double load(double value) const { return value; }
  SIM_HOST_DEVICE double store(double value) const { return value; }
};

template <>
class Arithmetic<float> : public FloatArithmetic<float> {
 public:
  SIM_HOST_DEVICE float load(float value) const { return value; }
  SIM_HOST_DEVICE float store(float value) const { return value; }
};

template <>
class Arithmetic<bfloat16> : public FloatArithmetic<float> {
 public:
  SIM_HOST_DEVICE float load(bfloat16 value) const { return to_float(value); }
  SIM_HOST_DEVICE bfloat16 store(float value) const { return to_bfloat16(value); }
};

template <typename Visit>
decltype(auto) with_activation(Activation function, Visit&& visit) {
  switch (function) {
    case Activation::gelu_tanh:
      return visit(std::integral_constant<Activation, Activation::gelu_tanh>());
    case Activation::gelu_erf:
      return visit(std::integral_constant<Activation, Activation::gelu_erf>());
    case Activation::silu:
      break;
  }
  return visit(std::integral_constant<Activation, Activation::silu>());
}

/// Returns 1 - ratio.
inline Ratio one_less(Ratio ratio) { return {ratio.denominator - ratio.numerator, ratio.denominator}; }

/// Returns 1 - beta^step, as Adam computes it for floats.
inline double correction(Ratio beta, std::int64_t step) {
  const double factor = quotient_of<double>(beta);
  double power = 1;
  for (std::int64_t i = 0; i < step; ++i) power *= factor;
  return 1 - power;
}

}  // namespace sim
