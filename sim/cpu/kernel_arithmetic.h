#pragma once

/// The arithmetic of kernels: the functions of each scalar under one set of names, so that each kernel is
/// written once.
///
///   Arithmetic<double>, <float>, <bfloat16>   from float_arithmetic.h
///   Arithmetic<Field>                         the exp and log of the field tower; functions that have no
///                                             algebra are keyed functions
///
/// Exact   every function is a fixed sequence of operations that are rounded once each; only calls of fma
///         fuse operations.

#include <array>
#include <cstddef>
#include <cstdint>

#include "sim/base/field_sum.h"
#include "sim/base/field_tower.h"
#include "sim/tensor/device.h"
#include "sim/tensor/scalar_arithmetic.h"

namespace sim {

template <>
class Arithmetic<Field> {
 public:
  using Wide = Field;

  explicit Arithmetic(const FieldTower& tower) : tower_(tower) {}
  Field load(const Field& value) const { return value; }
  Field store(const Field& value) const { return value; }
  Field of(Ratio ratio) const {
    const Field numerator = Field::of(ratio.numerator);
    return ratio.denominator == 1 ? numerator : numerator / Field::of(ratio.denominator);
  }
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

/// Returns the sum of the lanes, which are added as device.h says.
template <typename Wide>
Wide sum_of_lanes(const std::array<Wide, kLanes>& lanes) {
  std::array<Wide, 8> halves;
  for (std::size_t lane = 0; lane < halves.size(); ++lane) halves[lane] = lanes[lane] + lanes[lane + 8];
  const Wide first = halves[0] + halves[4], second = halves[1] + halves[5];
  const Wide third = halves[2] + halves[6], fourth = halves[3] + halves[7];
  return (first + third) + (second + fourth);
}

/// Returns term(0) + ... + term(n - 1), in the lanes that device.h describes.
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
    if (i < n) {
      // A lane begins as +0 and never becomes -0, so that adding +0 leaves its bits as they are.
      std::array<Wide, kLanes> rest{};
      for (std::int64_t lane = 0; i + lane < n; ++lane) rest[static_cast<std::size_t>(lane)] = term(i + lane);
      for (std::size_t lane = 0; lane < rest.size(); ++lane) lanes[lane] += rest[lane];
    }
    return sum_of_lanes(lanes);
  }
}

/// Returns the largest of term(0), ..., term(n - 1). The order does not matter.
template <typename Number, typename Term>
typename Number::Wide lane_max(const Number& number, std::int64_t n, const Term& term) {
  using Wide = typename Number::Wide;
  if constexpr (std::is_same_v<Wide, Field>) {
    Field largest = n > 0 ? term(0) : number.least();
    for (std::int64_t i = 1; i < n; ++i) {
      const Field other = term(i);
      if (precedes(largest, other)) largest = other;
    }
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

/// Calls visit as with_scalar does, for the dtypes that layers compute in.
template <typename Visit>
void with_computing_scalar(DType dtype, Visit&& visit) {
  SIM_CHECK(dtype != DType::i32);
  with_scalar(dtype, [&](auto scalar) {
    if constexpr (!std::is_same_v<decltype(scalar), std::int32_t>) visit(scalar);
  });
}

}  // namespace sim
