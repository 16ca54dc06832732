#pragma once

/// The largest element of a row and its column, on one device.
///
/// Shapes  x [T, F]. Each result is one number of row t.
/// Exact   In floats NaN is ignored, and a row without a number has the largest element -infinity and the
///         column -1. The field has no order, and that of sim::max() stands in for it. Of equal elements the
///         lowest column is taken. Where an error may make another column the right one, the column has no
///         bound, so that it is not judged.

#include <cmath>
#include <limits>

#include "verify/reference/matrix.h"
#include "verify/reference/perturbed.h"

namespace verify::reference {

namespace row_choice {

inline bool is_number(const sim::Field&) { return true; }
inline bool is_number(const Bounded& x) { return !std::isnan(x.value()); }
inline bool is_number(const Perturbed& x) { return !std::isnan(x.value()); }

inline bool is_larger(const sim::Field& a, const sim::Field& b) { return !(a == b) && sim::max(a, b) == a; }
inline bool is_larger(const Bounded& a, const Bounded& b) { return a.value() > b.value(); }
inline bool is_larger(const Perturbed& a, const Perturbed& b) { return a.value() > b.value(); }

/// Whether rounding may have exchanged two elements, one of which is taken.
inline bool may_exchange(const sim::Field&, const sim::Field&) { return false; }
inline bool may_exchange(const Bounded& taken, const Bounded& other) {
  const double error = taken.error() + other.error();
  return error > 0 && !(taken.value() - other.value() > error);
}

}  // namespace row_choice

/// Returns the column of the largest element of row t; -1 if the row has no number.
template <typename Scalar>
Eigen::Index column_of_largest(const Matrix<Scalar>& x, Eigen::Index t) {
  Eigen::Index largest = -1;
  for (Eigen::Index f = 0; f < x.cols(); ++f) {
    if (!row_choice::is_number(x(t, f))) continue;
    if (largest < 0 || row_choice::is_larger(x(t, f), x(t, largest))) largest = f;
  }
  return largest;
}

inline sim::Field no_largest(const Number<sim::Field>&) { return {}; }
inline Bounded no_largest(const Number<Bounded>& number) {
  return number.exact(-std::numeric_limits<double>::infinity());
}

/// Returns the largest element. Its error is the largest of the row, since a maximum enlarges none.
template <typename Scalar>
Scalar row_max(const Number<Scalar>& number, const Matrix<Scalar>& x, Eigen::Index t) {
  const Eigen::Index column = column_of_largest(x, t);
  if (column < 0) return no_largest(number);
  Scalar largest = x(t, column);
  for (Eigen::Index f = 0; f < x.cols(); ++f) {
    if (row_choice::is_number(x(t, f))) largest = number.larger(largest, x(t, f));
  }
  return largest;
}

inline sim::Field column_number(const Number<sim::Field>& number, Eigen::Index column, bool /*is_sure*/) {
  return number.of(column, 1);
}
inline Bounded column_number(const Number<Bounded>& number, Eigen::Index column, bool is_sure) {
  const auto value = static_cast<double>(column);
  return is_sure ? number.exact(value) : number.near(value, std::numeric_limits<double>::infinity());
}

/// Returns the column of the largest element as a number.
template <typename Scalar>
Scalar argmax(const Number<Scalar>& number, const Matrix<Scalar>& x, Eigen::Index t) {
  const Eigen::Index column = column_of_largest(x, t);
  bool is_sure = true;
  for (Eigen::Index f = 0; column >= 0 && f < x.cols(); ++f) {
    if (f != column && row_choice::is_number(x(t, f)) && row_choice::may_exchange(x(t, column), x(t, f)))
      is_sure = false;
  }
  return column_number(number, column, is_sure);
}

}  // namespace verify::reference
