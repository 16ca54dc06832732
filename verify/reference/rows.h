#pragma once

/// What references compute along a row of numbers. Each function is a loop over the elements. For a double
/// with its bound it is vector code (bounded_rows.cpp). For an element of the field, the loop is compiled for
/// the vector instructions of this machine (field_rows.cpp).
///
/// Shapes  a row is `n` consecutive elements of a matrix.
/// Exact   the vector code gives the numbers and bounds that the loop gives, bit for bit: where an element
///         has no finite bound, it leaves the elements to the loop. Operations are in the order of the loop,
///         which decides how a Perturbed is perturbed.

#include <Eigen/Core>
#include <algorithm>
#include <type_traits>
#include <utility>

#include "sim/base/check.h"
#include "sim/base/vectorised.h"
#include "verify/reference/number.h"

namespace verify::reference {

/// Runs a loop over the elements of a row.
template <typename Scalar, typename Loop>
void over_row(const Loop& loop) {
  if constexpr (std::is_same_v<Scalar, sim::Field>) {
    sim::vectorised(loop);
  } else {
    loop();
  }
}

/// Returns the largest element of a row, which has at least one.
template <typename Scalar>
Scalar largest_in_row(const Number<Scalar>& number, const Scalar* x, Eigen::Index n) {
  Scalar largest = x[0];
  over_row<Scalar>([&] {
    for (Eigen::Index i = 1; i < n; ++i) largest = number.larger(largest, x[i]);
  });
  return largest;
}
extern template sim::Field largest_in_row(const Number<sim::Field>&, const sim::Field*, Eigen::Index);

/// exps(i) = exp(x(i) - shift), which are added to the sum.
template <typename Scalar>
void exps_of_differences(const Number<Scalar>& number, const Scalar* x, Eigen::Index n, const Scalar& shift,
                         Scalar* exps, Sum<Scalar>& sum) {
  over_row<Scalar>([&] {
    Sum<Scalar> with_row = std::move(sum);  // a variable of the loop stays in registers
    for (Eigen::Index i = 0; i < n; ++i) {
      const Scalar exp = number.exp(x[i] - shift);
      exps[i] = exp;
      with_row.add(exp);
    }
    sum = std::move(with_row);
  });
}
extern template void exps_of_differences(const Number<sim::Field>&, const sim::Field*, Eigen::Index,
                                         const sim::Field&, sim::Field*, Sum<sim::Field>&);
template <>
void exps_of_differences(const Number<Bounded>& number, const Bounded* x, Eigen::Index n,
                         const Bounded& shift, Bounded* exps, Sum<Bounded>& sum);

/// Adds x(i) - shift to the sum.
template <typename Scalar>
void add_differences(const Scalar* x, Eigen::Index n, const Scalar& shift, Sum<Scalar>& sum) {
  over_row<Scalar>([&] {
    Sum<Scalar> with_row = std::move(sum);
    for (Eigen::Index i = 0; i < n; ++i) with_row.add(x[i] - shift);
    sum = std::move(with_row);
  });
}
extern template void add_differences(const sim::Field*, Eigen::Index, const sim::Field&, Sum<sim::Field>&);
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
  SIM_CHECK(scaled.one >= -1 && scaled.one < n);
  const Eigen::Index before = std::max(scaled.one, Eigen::Index{0});
  over_row<Scalar>([&] {
    for (Eigen::Index i = 0; i < before; ++i) out[i] = scaled.of(number, x[i]);
    if (scaled.one >= 0) out[before] = scaled.of_one(number, x[before]);
    for (Eigen::Index i = scaled.one + 1; i < n; ++i) out[i] = scaled.of(number, x[i]);
  });
}
extern template void scaled_differences(const Number<sim::Field>&, const sim::Field*, Eigen::Index,
                                        const ScaledDifference<sim::Field>&, sim::Field*);
template <>
void scaled_differences(const Number<Bounded>& number, const Bounded* x, Eigen::Index n,
                        const ScaledDifference<Bounded>& scaled, Bounded* out);

}  // namespace verify::reference
