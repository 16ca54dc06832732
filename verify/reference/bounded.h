#pragma once

/// A value in double, and how far the same value may lie from it when a program computes it in another
/// precision, in any order of summation: the bound that a candidate must meet. It is derived from the
/// rounding of each operation, never tuned.
///
/// Shapes  one element. Rounding says how the candidate rounds; an element that has none is exact.
/// Exact   for every candidate that does the same operations, each rounded at most once, or fewer by fma:
///         |candidate - value| <= error. A sum of n terms (Sum) may be taken in any order, and in parts on
///         several ranks. The rounding of the double value itself is part of the error.
/// Source  Higham 2002, Accuracy and Stability of Numerical Algorithms, sections 3.1 and 3.3.

#include <cmath>
#include <limits>

namespace verify::reference {

/// How a candidate rounds.
struct Rounding {
  double unit = 0;   // unit roundoff of what it computes in: 2^-24 for f32 and bf16
  double store = 0;  // of what its tensors hold: 2^-8 for bf16
  double least = 0;  // the least number it holds: what an underflow may lose
  int parts = 1;     // ranks that a sum may be spread over
};

inline Rounding rounding_of_f64(int parts) { return {0x1p-53, 0x1p-53, 0x1p-1074, parts}; }
inline Rounding rounding_of_f32(int parts) { return {0x1p-24, 0x1p-24, 0x1p-149, parts}; }
inline Rounding rounding_of_bf16(int parts) { return {0x1p-24, 0x1p-8, 0x1p-133, parts}; }

class Bounded {
 public:
  Bounded() = default;
  /// A number that the candidate holds exactly.
  explicit Bounded(double value, const Rounding* rounding = nullptr) : value_(value), rounding_(rounding) {}
  Bounded(double value, double error, const Rounding* rounding)
      : value_(value), error_(error), rounding_(rounding) {}

  double value() const { return value_; }
  double error() const { return error_; }
  const Rounding* rounding() const { return rounding_; }

  /// A result of one operation: what came in, and so many units of its own rounding. The value was rounded in
  /// double, too, and what is worked out here is as well (each term by less than 2^-48 of it).
  static Bounded rounded(double value, double propagated, double units, const Rounding* rounding) {
    if (std::isinf(value) && std::isfinite(propagated)) return {value, 0, rounding};  // of the candidate, too
    const double unit = 0x1p-53 + (rounding == nullptr ? 0 : rounding->unit);
    const double least = rounding == nullptr ? 0 : rounding->least;
    const double error =
        (propagated + units * unit * (std::fabs(value) + propagated) + least) * (1 + 0x1p-48);
    // 0 times an error without bound is not a number: there is no bound.
    const bool is_unbounded = std::isnan(error) && !std::isnan(value);
    return {value, is_unbounded ? std::numeric_limits<double>::infinity() : error, rounding};
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
  double value_ = 0;
  double error_ = 0;
  const Rounding* rounding_ = nullptr;
};

/// A sum in any order.
class BoundedSum {
 public:
  void add(const Bounded& term) { take(term.value(), term.error(), term.rounding()); }
  void add_product(const Bounded& a, const Bounded& b) {
    take(a.value() * b.value(), Bounded::product_error(a, b), Bounded::either(a, b));
  }

  /// n terms, a product each: n + 1 roundings of their magnitudes.
  Bounded value() const { return with_growth(0); }
  /// A part on each rank that is stored, and the sum of the parts, stored at every step.
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
  double magnitude_ = 0;  // of the terms
  double error_ = 0;      // that came in with them
  long terms_ = 0;
  const Rounding* rounding_ = nullptr;
};

}  // namespace verify::reference
