#pragma once

/// A value in double with an error bound: how far the same value may lie from it when a program (the
/// candidate) computes it in another precision and sums in any order. The bound is derived from the rounding
/// of each operation; it is never tuned.
///
/// Shapes  one element. Rounding says how the candidate rounds; an element without a Rounding is exact.
/// Exact   |candidate - value| <= error for every candidate that does the same operations and rounds each
///         of them at most once; a fused multiply-add may save a rounding. A sum of n terms (Sum) may be
///         taken in any order, and in parts on several ranks. The error includes the rounding of the double
///         value itself.
/// Source  Higham 2002, Accuracy and Stability of Numerical Algorithms, sections 3.1 and 3.3.

#include <cmath>
#include <cstddef>
#include <iterator>
#include <limits>
#include <span>

namespace verify::reference {

/// How a candidate rounds.
struct Rounding {
  double unit = 0;   // unit roundoff of its arithmetic: 2^-24 for f32 and bf16
  double store = 0;  // unit roundoff of its tensors: 2^-8 for bf16
  double least = 0;  // smallest positive number that it holds, which an underflow may lose
  int parts = 1;     // number of ranks over which a sum may be spread
  double most = std::numeric_limits<double>::max();  // largest number of its arithmetic
};

inline Rounding rounding_of_f64(int parts) { return {0x1p-53, 0x1p-53, 0x1p-1074, parts}; }
inline Rounding rounding_of_f32(int parts) {
  return {0x1p-24, 0x1p-24, 0x1p-149, parts, std::numeric_limits<float>::max()};
}
inline Rounding rounding_of_bf16(int parts) {
  return {0x1p-24, 0x1p-8, 0x1p-133, parts, std::numeric_limits<float>::max()};
}

class Bounded {
 public:
  Bounded() = default;
  /// A number that the candidate holds without error.
  explicit Bounded(double value, const Rounding* rounding = nullptr) : value_(value), rounding_(rounding) {}
  Bounded(double value, double error, const Rounding* rounding)
      : value_(value), error_(error), rounding_(rounding) {}

  double value() const { return value_; }
  double error() const { return error_; }
  /// Whether the candidate may hold any number, also one that is not finite, because it may have made another
  /// choice than this computation. The error of such a number is negative.
  bool is_unknown() const { return error_ < 0; }
  const Rounding* rounding() const { return rounding_; }

  /// The result of one operation. Its error is the error propagated from the operands, plus `units` unit
  /// roundoffs of the operation itself. The bound also covers the rounding of the value in double, and the
  /// rounding of the bound as it is computed here (less than 2^-48 of each term).
  static Bounded rounded(double value, double propagated, double units, const Rounding* rounding) {
    const double unit = 0x1p-53 + (rounding == nullptr ? 0 : rounding->unit);
    const double least = rounding == nullptr ? 0 : rounding->least;
    const double error = error_of(value, propagated, units, unit, least);
    if (error < std::numeric_limits<double>::infinity()) return {value, error, rounding};
    return without_bound(value, propagated, error, rounding);
  }
  /// The error of rounded(), where it is finite: value and propagated are then finite, too.
  static double error_of(double value, double propagated, double units, double unit, double least) {
    return (propagated + units * unit * (std::fabs(value) + propagated) + least) * (1 + 0x1p-48);
  }

  friend Bounded operator+(const Bounded& a, const Bounded& b) {
    return rounded(a.value_ + b.value_, a.error_ + b.error_, 1, either(a, b));
  }
  friend Bounded operator-(const Bounded& a, const Bounded& b) {
    return rounded(a.value_ - b.value_, a.error_ + b.error_, 1, either(a, b));
  }
  friend Bounded operator-(const Bounded& a) { return {-a.value_, a.error_, a.rounding_}; }
  friend Bounded operator*(const Bounded& a, const Bounded& b) {
    return rounded(a.value_ * b.value_, product_error(a, b), 1, either(a, b));
  }
  friend Bounded operator/(const Bounded& a, const Bounded& b) {
    const double quotient = a.value_ / b.value_;
    const double least_divisor = std::fabs(b.value_) - b.error_;
    const double propagated = least_divisor > 0 ? (a.error_ + std::fabs(quotient) * b.error_) / least_divisor
                                                : std::numeric_limits<double>::infinity();
    return rounded(quotient, propagated, 1, either(a, b));
  }

  static double product_error(const Bounded& a, const Bounded& b) {
    return std::fabs(a.value_) * b.error_ + std::fabs(b.value_) * a.error_ + a.error_ * b.error_;
  }
  static const Rounding* either(const Bounded& a, const Bounded& b) {
    return a.rounding_ != nullptr ? a.rounding_ : b.rounding_;
  }

 private:
  static Bounded without_bound(double value, double propagated, double error, const Rounding* rounding) {
    // The candidate overflows to the same infinity.
    if (std::isinf(value) && std::isfinite(propagated)) return {value, 0, rounding};
    // An error is NaN after 0 times an infinite error. Then there is no bound.
    const bool is_unbounded = std::isnan(error) && !std::isnan(value);
    return {value, is_unbounded ? std::numeric_limits<double>::infinity() : error, rounding};
  }

  double value_ = 0;
  double error_ = 0;
  const Rounding* rounding_ = nullptr;
};

/// A sum whose terms the candidate may add in any order.
class BoundedSum {
 public:
  void add(const Bounded& term) { take(term.value(), term.error(), term.rounding()); }
  /// Adds terms in their order, none of whose errors is NaN.
  void add(std::span<const double> values, std::span<const double> errors, const Rounding* rounding) {
    double sum = sum_, magnitude = magnitude_, error = error_;
    for (std::size_t i = 0; i < values.size(); ++i) {
      sum += values[i];
      magnitude += std::fabs(values[i]) + errors[i];
      error += errors[i];
    }
    sum_ = sum;
    magnitude_ = magnitude;
    error_ = error;
    terms_ += std::ssize(values);
    if (rounding != nullptr && !values.empty()) rounding_ = rounding;
  }
  void add_product(const Bounded& a, const Bounded& b) {
    take(a.value() * b.value(), Bounded::product_error(a, b), Bounded::either(a, b));
  }

  /// The sum on one rank. For n terms, each of which may be a product, the bound is n + 1 roundings of the
  /// sum of their magnitudes.
  Bounded value() const { return with_growth(0); }
  /// The sum when each rank adds and stores a part of the terms, and the ranks then add these parts and store
  /// the result of every addition.
  Bounded value_in_parts() const {
    const bool has_parts = rounding_ != nullptr && rounding_->parts > 1;
    return with_growth(has_parts ? rounding_->parts * rounding_->store : 0);
  }

 private:
  Bounded with_growth(double of_parts) const {
    const double n = static_cast<double>(terms_) + 1;
    const Rounding rounding = rounding_ == nullptr ? Rounding{} : *rounding_;
    const double unit = rounding.unit + 0x1p-53;
    const double growth = n * unit / (1 - n * unit) + of_parts;
    return {sum_, (error_ + growth * magnitude_ + n * rounding.least) * (1 + 0x1p-40), rounding_};
  }

  void take(double value, double error, const Rounding* rounding) {
    if (std::isnan(error) && !std::isnan(value)) error = std::numeric_limits<double>::infinity();
    sum_ += value;
    magnitude_ += std::fabs(value) + error;
    error_ += error;
    ++terms_;
    if (rounding != nullptr) rounding_ = rounding;
  }

  double sum_ = 0;
  double magnitude_ = 0;  // sum of the magnitudes of the terms, each with its error
  double error_ = 0;      // sum of the errors of the terms
  long terms_ = 0;
  const Rounding* rounding_ = nullptr;
};

}  // namespace verify::reference
