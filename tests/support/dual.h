#pragma once

/// A number and its derivative along one direction, in bounded arithmetic. A reference that runs on such
/// numbers differentiates itself and bounds how far rounding may have moved the derivative. This
/// replaces finite differences, which need a step size.
///
/// Source  forward-mode differentiation, Wengert 1964.

#include <string>

#include "verify/reference/number.h"

namespace test {

using verify::reference::Bounded;

struct Dual {
  Bounded value;
  Bounded slope;

  friend Dual operator+(const Dual& a, const Dual& b) { return {a.value + b.value, a.slope + b.slope}; }
  friend Dual operator-(const Dual& a, const Dual& b) { return {a.value - b.value, a.slope - b.slope}; }
  friend Dual operator-(const Dual& a) { return {-a.value, -a.slope}; }
  friend Dual operator*(const Dual& a, const Dual& b) {
    return {a.value * b.value, a.slope * b.value + a.value * b.slope};
  }
  friend Dual operator/(const Dual& a, const Dual& b) {
    const Bounded quotient = a.value / b.value;
    return {quotient, (a.slope - quotient * b.slope) / b.value};
  }
};

}  // namespace test

namespace verify::reference {

template <>
class Number<test::Dual> {
 public:
  using Dual = test::Dual;
  explicit Number(const Rounding& rounding) : of_values_(rounding) {}
  Dual of(std::int64_t numerator, std::int64_t denominator) const {
    return {of_values_.of(numerator, denominator), of_values_.of(0, 1)};
  }
  Dual real(double value) const { return {of_values_.real(value), of_values_.of(0, 1)}; }
  Dual stored(const Dual& x) const { return x; }
  Dual exp(const Dual& x) const {
    const Bounded e = of_values_.exp(x.value);
    return {e, e * x.slope};
  }
  Dual log(const Dual& x) const { return {of_values_.log(x.value), x.slope / x.value}; }
  Dual rsqrt(const Dual& x) const {
    const Bounded r = of_values_.rsqrt(x.value);
    return {r, -(of_values_.of(1, 2) * r * r * r * x.slope)};
  }
  Dual tanh(const Dual& x) const {
    const Bounded t = of_values_.tanh(x.value);
    return {t, (of_values_.of(1, 1) - t * t) * x.slope};
  }
  Dual erf(const Dual& x) const {
    const Bounded density = of_values_.real(2 / std::sqrt(M_PI)) * of_values_.exp(-(x.value * x.value));
    return {of_values_.erf(x.value), density * x.slope};
  }
  Dual larger(const Dual& a, const Dual& b) const { return a.value.value() < b.value.value() ? b : a; }
  Dual softmax_shift(const std::vector<Dual>& row) const { return largest_of(*this, row); }
  Dual activation(Activation function, bool derivative, const Dual& x) const {
    return activation_in_steps(*this, function, derivative, x);
  }
  template <typename Steps>
  Dual function(const std::string& /*name*/, const Dual& x, const Steps& steps) const {
    return steps(*this, x);
  }

 private:
  Number<Bounded> of_values_;
};

template <>
class Sum<test::Dual> {
 public:
  void add(const test::Dual& term) {
    values_.add(term.value);
    slopes_.add(term.slope);
  }
  void add_product(const test::Dual& a, const test::Dual& b) { add(a * b); }
  test::Dual value() const { return {values_.value(), slopes_.value()}; }
  test::Dual value_in_parts() const { return value(); }

 private:
  BoundedSum values_;
  BoundedSum slopes_;
};

}  // namespace verify::reference
