#pragma once

/// A computation in another dtype in the middle of a reference, such as that of a router in f32 for hidden
/// states of bf16.
///
/// Exact   a cast to a dtype with more bits keeps every value, and a cast back rounds once. The field has one
///         dtype, and nothing is cast.

#include "verify/reference/matrix.h"

namespace verify::reference {

template <typename Scalar>
class InnerDtype;

template <>
class InnerDtype<sim::Field> {
 public:
  InnerDtype(const Number<sim::Field>& outer, const Rounding& /*inner*/) : number_(outer) {}
  const Number<sim::Field>& number() const { return number_; }
  Matrix<sim::Field> cast_in(Matrix<sim::Field> x) const { return x; }
  Matrix<sim::Field> cast_out(Matrix<sim::Field> x) const { return x; }
  Matrix<sim::Field> kept(Matrix<sim::Field> x) const { return x; }

 private:
  Number<sim::Field> number_;
};

template <>
class InnerDtype<Bounded> {
 public:
  InnerDtype(const Number<Bounded>& outer, const Rounding& inner)
      : outer_(outer), rounding_(inner), inner_(rounding_) {}
  InnerDtype(const InnerDtype&) = delete;
  InnerDtype& operator=(const InnerDtype&) = delete;

  /// The arithmetic of the inner dtype. What it computes must not outlive this object, but as cast_out() or
  /// kept() returns it.
  const Number<Bounded>& number() const { return inner_; }
  Matrix<Bounded> cast_in(const Matrix<Bounded>& x) const { return rounded_as(rounding_, x); }
  /// Returns x as tensors of the outer dtype hold it.
  Matrix<Bounded> cast_out(const Matrix<Bounded>& x) const {
    const Matrix<Bounded> own = kept(x);
    return matrix_of(outer_, x.rows(), x.cols(), [&](Eigen::Index i, Eigen::Index j) { return own(i, j); });
  }
  /// Returns x as it is, which stays in the inner dtype.
  Matrix<Bounded> kept(const Matrix<Bounded>& x) const { return rounded_as(outer_.rounding(), x); }

 private:
  /// The same numbers, from which other operations go on with this rounding.
  static Matrix<Bounded> rounded_as(const Rounding& rounding, const Matrix<Bounded>& x) {
    Matrix<Bounded> result(x.rows(), x.cols());
    for (Eigen::Index i = 0; i < x.size(); ++i)
      result.data()[i] = {x.data()[i].value(), x.data()[i].error(), &rounding};
    return result;
  }

  Number<Bounded> outer_;
  Rounding rounding_;
  Number<Bounded> inner_;
};

}  // namespace verify::reference
