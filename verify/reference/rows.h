#pragma once

/// What references compute along a row of numbers. Each function is a loop over the elements; for a double
/// with its bound it is vector code (bounded_rows.cpp).
///
/// Shapes  a row is `n` consecutive elements of a matrix.
/// Exact   the vector code gives the numbers and bounds that the loop gives, bit for bit: where an element
///         has no finite bound, it leaves the elements to the loop. Operations are in the order of the loop,
///         which decides how a Perturbed is perturbed.

#include <Eigen/Core>

#include "verify/reference/number.h"

namespace verify::reference {

/// Returns the largest element of a row, which has at least one.
template <typename Scalar>
Scalar largest_in_row(const Number<Scalar>& number, const Scalar* x, Eigen::Index n) {
  Scalar largest = x[0];
  for (Eigen::Index i = 1; i < n; ++i) largest = number.larger(largest, x[i]);
  return largest;
}

/// exps(i) = exp(x(i) - shift), which are added to the sum.
template <typename Scalar>
void exps_of_differences(const Number<Scalar>& number, const Scalar* x, Eigen::Index n, const Scalar& shift,
                         Scalar* exps, Sum<Scalar>& sum) {
  for (Eigen::Index i = 0; i < n; ++i) {
    exps[i] = number.exp(x[i] - shift);
    sum.add(exps[i]);
  }
}
template <>
void exps_of_differences(const Number<Bounded>& number, const Bounded* x, Eigen::Index n,
                         const Bounded& shift, Bounded* exps, Sum<Bounded>& sum);

/// Adds x(i) - shift to the sum.
template <typename Scalar>
void add_differences(const Scalar* x, Eigen::Index n, const Scalar& shift, Sum<Scalar>& sum) {
  for (Eigen::Index i = 0; i < n; ++i) sum.add(x[i] - shift);
}
template <>
void add_differences(const Bounded* x, Eigen::Index n, const Bounded& shift, Sum<Bounded>& sum);

/// (x factor - less) upstream. One element of the row has also `less_of_one` subtracted, before it is
/// multiplied by `upstream`.
template <typename Scalar>
struct ScaledDifference {
  Scalar factor, less, upstream;
  Eigen::Index one = -1;  // which element; -1: none
  Scalar less_of_one = {};

  Scalar of(const Number<Scalar>& number, const Scalar& x) const {
    return number.stored((x * factor - less) * upstream);
  }
  Scalar of_one(const Number<Scalar>& number, const Scalar& x) const {
    return number.stored((x * factor - less - less_of_one) * upstream);
  }
};

/// out(i) is the scaled difference of x(i), rounded to what a tensor of the candidate can hold.
template <typename Scalar>
void scaled_differences(const Number<Scalar>& number, const Scalar* x, Eigen::Index n,
                        const ScaledDifference<Scalar>& scaled, Scalar* out) {
  for (Eigen::Index i = 0; i < n; ++i)
    out[i] = i == scaled.one ? scaled.of_one(number, x[i]) : scaled.of(number, x[i]);
}
template <>
void scaled_differences(const Number<Bounded>& number, const Bounded* x, Eigen::Index n,
                        const ScaledDifference<Bounded>& scaled, Bounded* out);

}  // namespace verify::reference
