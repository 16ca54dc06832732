#pragma once

/// What kernels compute in: the functions of each scalar behind one set of names, so that a kernel is written once.
///
///   Arithmetic<double>, <float>   themselves, with the functions of base/elementary.h
///   Arithmetic<bfloat16>          floats, rounded when they are stored
///   Arithmetic<Field>             the tower's exp and log; what algebra does not have is a keyed function
///
/// Exact   every function is a fixed sequence of operations that are rounded once; nothing is fused but by name.
/// Source  Hendrycks and Gimpel 2016 (GELU, both forms); Elfwing et al. 2018 (SiLU).

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "sim/base/elementary.h"
#include "sim/base/field_sum.h"
#include "sim/base/field_tower.h"
#include "sim/tensor/device.h"
#include "sim/tensor/scalar_arithmetic.h"

namespace sim {

template <typename T>
class FloatArithmetic {
 public:
  using Wide = T;

  T of(Ratio ratio) const { return quotient_of<T>(ratio); }
  T fma(T a, T b, T c) const { return std::fma(a, b, c); }
  T exp(T x) const { return elementary::exp(x); }
  T log(T x) const { return elementary::log(x); }
  T rsqrt(T x) const { return elementary::rsqrt(x); }
  T sqrt(T x) const { return std::sqrt(x); }
  /// The one of c and 1 that a gradient is scaled by.
  T clipped(T c) const { return c < 1 ? c : T{1}; }
  /// b is no NaN; it is kept where a is one.
  T larger(T a, T b) const { return a > b ? a : b; }
  T least() const { return -std::numeric_limits<T>::infinity(); }

  /// f(x)
  template <Activation function>
  T activation(T x) const {
    if constexpr (function == Activation::gelu_tanh) {
      return kHalf * x * (1 + elementary::tanh(gelu_argument(x)));
    } else if constexpr (function == Activation::gelu_erf) {
      return kHalf * x * (1 + elementary::erf(x * kRootHalf));
    } else {
      return x / (1 + elementary::exp(-x));
    }
  }

  /// f'(x)
  template <Activation function>
  T derivative(T x) const {
    if constexpr (function == Activation::gelu_tanh) {
      const T t = elementary::tanh(gelu_argument(x));
      const T inner = kRootTwoByPi * std::fma(3 * kCubic * x, x, T{1});
      return std::fma(kHalf * x * (1 - t * t), inner, kHalf * (1 + t));
    } else if constexpr (function == Activation::gelu_erf) {
      const T density = kRootOneByTwoPi * elementary::exp(-kHalf * x * x);
      return std::fma(x, density, std::fma(kHalf, elementary::erf(x * kRootHalf), kHalf));
    } else {
      const T s = 1 / (1 + elementary::exp(-x));
      return s * std::fma(x, 1 - s, T{1});
    }
  }

 private:
  static constexpr T kHalf = T{0.5};
  static constexpr T kRootHalf = T(0.70710678118654752440L);
  static constexpr T kRootTwoByPi = T(0.79788456080286535588L);
  static constexpr T kRootOneByTwoPi = T(0.39894228040143267794L);
  static constexpr T kCubic = T(0.044715L);

  static T gelu_argument(T x) { return kRootTwoByPi * std::fma(kCubic * x * x, x, x); }
};

template <typename Scalar>
class Arithmetic;

template <>
class Arithmetic<double> : public FloatArithmetic<double> {
 public:
  double load(double value) const { return value; }
  double store(double value) const { return value; }
};

template <>
class Arithmetic<float> : public FloatArithmetic<float> {
 public:
  float load(float value) const { return value; }
  float store(float value) const { return value; }
};

template <>
class Arithmetic<bfloat16> : public FloatArithmetic<float> {
 public:
  float load(bfloat16 value) const { return to_float(value); }
  bfloat16 store(float value) const { return to_bfloat16(value); }
};

template <>
class Arithmetic<Field> {
 public:
  using Wide = Field;

  explicit Arithmetic(const FieldTower& tower) : tower_(tower) {}
  Field load(const Field& value) const { return value; }
  Field store(const Field& value) const { return value; }
  Field of(Ratio ratio) const { return Field::of(ratio.numerator) / Field::of(ratio.denominator); }
  Field fma(const Field& a, const Field& b, const Field& c) const { return a * b + c; }
  Field exp(const Field& x) const { return tower_.exp(x); }
  Field log(const Field& x) const { return tower_.log(x); }
  Field rsqrt(const Field& x) const { return tower_.keyed("rsqrt", x); }
  Field sqrt(const Field& x) const { return tower_.keyed("sqrt", x); }
  Field clipped(const Field& c) const { return tower_.chooses("clip", c) ? c : Field::of(1); }
  Field larger(const Field& a, const Field& b) const { return max(a, b); }
  Field least() const { return Field(); }

  template <Activation function>
  Field activation(const Field& x) const {
    return tower_.keyed(name<function>(), x);
  }
  template <Activation function>
  Field derivative(const Field& x) const {
    return tower_.keyed(derivative_name<function>(), x);
  }

 private:
  template <Activation function>
  static const char* name() {
    if constexpr (function == Activation::gelu_tanh) return "gelu_tanh";
    return function == Activation::gelu_erf ? "gelu_erf" : "silu";
  }
  template <Activation function>
  static const char* derivative_name() {
    if constexpr (function == Activation::gelu_tanh) return "gelu_tanh_derivative";
    return function == Activation::gelu_erf ? "gelu_erf_derivative" : "silu_derivative";
  }

  const FieldTower& tower_;
};

inline constexpr std::int64_t kLanes = 16;

/// term(0) + ... + term(n - 1), in lanes as device.h says.
template <typename Wide, typename Term>
Wide lane_sum(std::int64_t n, const Term& term) {
  if constexpr (std::is_same_v<Wide, Field>) {
    FieldSum sum;
    for (std::int64_t i = 0; i < n; ++i) sum.add(term(i));
    return sum.value();
  } else {
    std::array<Wide, kLanes> lanes{};
    std::int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      for (std::int64_t lane = 0; lane < kLanes; ++lane)
        lanes[static_cast<std::size_t>(lane)] += term(i + lane);
    }
    for (; i < n; ++i) lanes[static_cast<std::size_t>(i % kLanes)] += term(i);
    for (std::size_t half = kLanes / 2; half > 0; half /= 2) {
      for (std::size_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
    }
    return lanes[0];
  }
}

/// The largest of term(0), ..., term(n - 1); the order does not matter.
template <typename Number, typename Term>
typename Number::Wide lane_max(const Number& number, std::int64_t n, const Term& term) {
  using Wide = typename Number::Wide;
  if constexpr (std::is_same_v<Wide, Field>) {
    Field largest = n > 0 ? term(0) : number.least();
    for (std::int64_t i = 1; i < n; ++i) largest = number.larger(largest, term(i));
    return largest;
  } else {
    std::array<Wide, kLanes> lanes;
    lanes.fill(number.least());
    std::int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      for (std::int64_t lane = 0; lane < kLanes; ++lane) {
        Wide& largest = lanes[static_cast<std::size_t>(lane)];
        largest = number.larger(term(i + lane), largest);
      }
    }
    for (; i < n; ++i) lanes[0] = number.larger(term(i), lanes[0]);
    for (std::size_t lane = 1; lane < kLanes; ++lane) lanes[0] = number.larger(lanes[lane], lanes[0]);
    return lanes[0];
  }
}

/// As with_scalar, for the dtypes that layers compute in.
template <typename Visit>
void with_computing_scalar(DType dtype, Visit&& visit) {
  CHECK(dtype != DType::i32);
  with_scalar(dtype, [&](auto scalar) {
    if constexpr (!std::is_same_v<decltype(scalar), std::int32_t>) visit(scalar);
  });
}

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

}  // namespace sim
