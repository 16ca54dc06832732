#pragma once

/// The arithmetic of references: one set of operations for an element of the field (the exact twin) and for a
/// double with its bound. A reference is written once, as a template on the scalar.
///
/// Exact   the bound of a function assumes that the candidate's functions are within two units in the last
///         place (sim/base/elementary.h), and those of the C library within one.
/// Source  Higham 2002, section 3; derivatives bound the effect of an error in the argument.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "sim/base/field_sum.h"
#include "sim/base/field_tower.h"
#include "verify/reference/bounded.h"

namespace verify::reference {

enum class Activation { gelu_tanh, gelu_erf, silu };

template <typename Scalar>
class Number;

template <typename Scalar, typename Of>
Scalar largest_of(const Of& number, const std::vector<Scalar>& row) {
  Scalar largest = row.front();
  for (const Scalar& x : row) largest = number.larger(largest, x);
  return largest;
}

/// The three activations for a scalar that has tanh, erf and exp, computed in the same steps as in a program
/// that rounds after each of them.
template <typename Scalar, typename Of>
Scalar activation_in_steps(const Of& number, Activation function, bool derivative, const Scalar& x) {
  const Scalar one = number.of(1, 1);
  const Scalar half = number.of(1, 2);
  if (function == Activation::silu) {
    const Scalar s = one / (one + number.exp(-x));
    return derivative ? s * (one + x * (one - s)) : x / (one + number.exp(-x));
  }
  if (function == Activation::gelu_erf) {
    const Scalar e = number.erf(x * number.real(std::sqrt(0.5)));
    if (!derivative) return half * x * (one + e);
    const Scalar density = number.real(std::sqrt(0.5 / M_PI)) * number.exp(-(half * x * x));
    return half * (one + e) + x * density;
  }
  const Scalar root = number.real(std::sqrt(2 / M_PI));
  const Scalar cubic = number.of(44715, 1000000);
  const Scalar t = number.tanh(root * (x + cubic * x * x * x));
  if (!derivative) return half * x * (one + t);
  const Scalar inner = root * (one + number.of(3, 1) * cubic * x * x);
  return half * (one + t) + half * x * (one - t * t) * inner;
}

template <>
class Number<sim::Field> {
 public:
  explicit Number(const sim::FieldTower& tower) : tower_(&tower) {}
  sim::Field of(std::int64_t numerator, std::int64_t denominator) const {
    return denominator == 1 ? sim::Field::of(numerator)
                            : sim::Field::of(numerator) / sim::Field::of(denominator);
  }
  sim::Field stored(const sim::Field& x) const { return x; }
  sim::Field exp(const sim::Field& x) const { return tower_->exp(x); }
  sim::Field log(const sim::Field& x) const { return tower_->log(x); }
  sim::Field rsqrt(const sim::Field& x) const { return tower_->keyed("rsqrt", x); }
  sim::Field sqrt(const sim::Field& x) const { return tower_->keyed("sqrt", x); }
  /// The factor that clips gradients: c or 1. Floats decide this branch by comparing; the field decides it by
  /// a keyed function.
  sim::Field clipped(const sim::Field& c) const { return tower_->chooses("clip", c) ? c : sim::Field::of(1); }
  sim::Field larger(const sim::Field& a, const sim::Field& b) const { return sim::max(a, b); }
  /// What a softmax subtracts from the scores of a row. Both sides agree on 0, which is the same for every
  /// part of a row.
  sim::Field softmax_shift(const std::vector<sim::Field>&) const { return {}; }
  sim::Field activation(Activation function, bool derivative, const sim::Field& x) const {
    switch (function) {
      case Activation::gelu_tanh:
        return tower_->keyed(derivative ? "gelu_tanh_derivative" : "gelu_tanh", x);
      case Activation::gelu_erf:
        return tower_->keyed(derivative ? "gelu_erf_derivative" : "gelu_erf", x);
      case Activation::silu:
        break;
    }
    return tower_->keyed(derivative ? "silu_derivative" : "silu", x);
  }
  /// A function that has no algebra, such as one of an author (sim/tensor/element_function.h): in the field a
  /// keyed function of its name, elsewhere steps(number, x).
  template <typename Steps>
  sim::Field function(const std::string& name, const sim::Field& x, const Steps&) const {
    return tower_->keyed(name, x);
  }

 private:
  const sim::FieldTower* tower_;
};

template <>
class Number<Bounded> {
 public:
  explicit Number(const Rounding& rounding) : rounding_(&rounding) {}
  const Rounding& rounding() const { return *rounding_; }
  Bounded of(std::int64_t numerator, std::int64_t denominator) const {
    const double value = static_cast<double>(numerator) / static_cast<double>(denominator);
    return Bounded::rounded(value, 0, denominator == 1 ? 0 : 1, rounding_);
  }
  /// A number that the candidate holds without error.
  Bounded exact(double value) const { return Bounded(value, rounding_); }
  /// A number that the candidate has computed with an error of at most `error`, and then rounds.
  Bounded near(double value, double error) const { return Bounded::rounded(value, error, 1, rounding_); }
  /// A result of a choice that the candidate may have made otherwise.
  Bounded unknown(double value) const { return {value, -1, rounding_}; }
  /// A constant that the candidate rounds.
  Bounded real(double value) const { return Bounded::rounded(value, 0, 2, rounding_); }
  /// x rounded to the dtype of the candidate's tensors.
  Bounded stored(const Bounded& x) const {
    return {x.value(), x.error() + rounding_->store * (std::fabs(x.value()) + x.error()), rounding_};
  }
  Bounded exp(const Bounded& x) const {
    const double value = std::exp(x.value());
    // Where the candidate's arithmetic overflows, a quotient such as a sigmoid is 0 for it.
    if (std::isfinite(value) && value > rounding_->most) return {value, kUnbounded, rounding_};
    return function(value, value * growth_of_exp(x.error()));
  }
  /// Returns e^error - 1, by which an error of its argument changes an exponential.
  static double growth_of_exp(double error) {
    return error >= 0 && error < kSmallError ? growth_of_small(error) : std::expm1(error);
  }
  /// The same below kSmallError: the first terms of the series. 1/100 stands for the sum of the others, which
  /// begins with 1/120, so that no bound is too small.
  static double growth_of_small(double error) {
    return error * (1 + error * (0.5 + error * (1.0 / 6 + error * (1.0 / 24 + error * (1.0 / 100)))));
  }
  static constexpr double kSmallError = 0x1p-10;
  Bounded log(const Bounded& x) const {
    const double propagated = x.error() < x.value() ? -std::log1p(-x.error() / x.value()) : kUnbounded;
    return function(std::log(x.value()), propagated);
  }
  Bounded rsqrt(const Bounded& x) const {
    const double value = 1 / std::sqrt(x.value());
    const double propagated =
        x.error() < x.value() ? value * (1 / std::sqrt(1 - x.error() / x.value()) - 1) : kUnbounded;
    return function(value, propagated);
  }
  Bounded sqrt(const Bounded& x) const {
    const double value = std::sqrt(x.value());
    // |sqrt(a) - sqrt(b)| is at most |a - b| / sqrt(b), and it is at most sqrt(|a - b|).
    const double by_slope = value > 0 ? x.error() / value : kUnbounded;
    return Bounded::rounded(value, std::min(by_slope, std::sqrt(x.error())), 1, rounding_);
  }
  /// The smaller of c and 1, or 1 if c is NaN. A minimum never enlarges an error, so the bound is that of c.
  Bounded clipped(const Bounded& c) const {
    return std::isnan(c.value()) ? of(1, 1) : Bounded(std::min(c.value(), 1.0), c.error(), rounding_);
  }
  Bounded tanh(const Bounded& x) const { return function(std::tanh(x.value()), x.error()); }
  Bounded erf(const Bounded& x) const {
    return function(std::erf(x.value()), 2 / std::sqrt(M_PI) * x.error());
  }
  Bounded larger(const Bounded& a, const Bounded& b) const {
    return {std::max(a.value(), b.value()), std::max(a.error(), b.error()), rounding_};
  }
  Bounded softmax_shift(const std::vector<Bounded>& row) const { return largest_of(*this, row); }
  Bounded activation(Activation function_of, bool derivative, const Bounded& x) const {
    return activation_in_steps(*this, function_of, derivative, x);
  }
  template <typename Steps>
  Bounded function(const std::string& /*name*/, const Bounded& x, const Steps& steps) const {
    return steps(*this, x);
  }

 private:
  static constexpr double kUnbounded = std::numeric_limits<double>::infinity();
  /// Two of the candidate's units in the last place are four of its unit roundoffs.
  Bounded function(double value, double propagated) const {
    return Bounded::rounded(value, propagated, 4, rounding_);
  }
  const Rounding* rounding_;
};

/// A sum of terms and of products, taken in any order: value() is the sum on one rank, and value_in_parts()
/// the sum of parts that several ranks hold, which are stored and added.
template <typename Scalar>
class Sum;

template <>
class Sum<sim::Field> : public sim::FieldSum {
 public:
  sim::Field value_in_parts() const { return value(); }
};
template <>
class Sum<Bounded> : public BoundedSum {};

}  // namespace verify::reference
