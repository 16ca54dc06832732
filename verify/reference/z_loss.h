#pragma once

/// The z-loss of a router on one device: the mean over the tokens of a rank of the squared logarithm of the
/// sum of exponentials, and its gradient.
///
/// Shapes  logits [T, E], T / ranks tokens of each rank; losses [1, ranks]. `factor` multiplies both.
/// Source  Zoph et al. 2022.

#include <vector>

#include "verify/reference/matrix.h"

namespace verify::reference {

template <typename Scalar>
struct ZLoss {
  Matrix<Scalar> losses;    // [1, ranks]
  Matrix<Scalar> gradient;  // [T, E], of the sum of all losses
};

template <typename Scalar>
ZLoss<Scalar> z_loss(const Number<Scalar>& number, const Matrix<Scalar>& logits, Eigen::Index ranks,
                     const Scalar& factor) {
  const Eigen::Index tokens = logits.rows() / ranks;
  const Scalar share = number.of(1, tokens);
  ZLoss<Scalar> result{zeros<Scalar>(1, ranks), zeros<Scalar>(logits.rows(), logits.cols())};
  for (Eigen::Index r = 0; r < ranks; ++r) {
    Sum<Scalar> squares;
    for (Eigen::Index t = r * tokens; t < (r + 1) * tokens; ++t) {
      Scalar shift = logits(t, 0);
      for (Eigen::Index e = 1; e < logits.cols(); ++e) shift = number.larger(shift, logits(t, e));
      std::vector<Scalar> exps;
      Sum<Scalar> sum;
      for (Eigen::Index e = 0; e < logits.cols(); ++e) {
        exps.push_back(number.exp(logits(t, e) - shift));
        sum.add(exps.back());
      }
      const Scalar z = number.log(sum.value()) + shift;
      squares.add_product(z, z);
      const Scalar slope = z * number.of(2, 1) * share * factor;
      const Scalar inverse = number.of(1, 1) / sum.value();
      for (Eigen::Index e = 0; e < logits.cols(); ++e)
        result.gradient(t, e) = number.stored(exps[static_cast<std::size_t>(e)] * inverse * slope);
    }
    result.losses(0, r) = number.stored(squares.value() * share * factor);
  }
  return result;
}

}  // namespace verify::reference
