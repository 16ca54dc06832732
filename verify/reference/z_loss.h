#pragma once

/// The z-loss of a router on one device: the mean over the tokens of a rank, but those that are padding, of
/// the squared logarithm of the sum of exponentials, and its gradient.
///
/// Shapes  logits [T, E], T / ranks tokens of each rank; losses [1, ranks]. `factor` multiplies both. With
///         Over::sum each rank's are multiplied by its tokens that are no padding, too.
/// Exact   The gradient of padding is 0 times its softmax, and not just 0: a NaN stays one, and in the field
///         it lacks the residues that an exponential lacks.
/// Source  Zoph et al. 2022.

#include <functional>
#include <vector>

#include "verify/reference/matrix.h"

namespace verify::reference {

template <typename Scalar>
struct ZLoss {
  Matrix<Scalar> losses;    // [1, ranks]
  Matrix<Scalar> gradient;  // [T, E], of the sum of all losses
};

enum class Over { mean, sum };

template <typename Scalar>
ZLoss<Scalar> z_loss(
    const Number<Scalar>& number, const Matrix<Scalar>& logits, Eigen::Index ranks, const Scalar& factor,
    const std::function<bool(Eigen::Index)>& is_padding = [](Eigen::Index) { return false; },
    Over over = Over::mean) {
  const Eigen::Index tokens = logits.rows() / ranks;
  ZLoss<Scalar> result{zeros<Scalar>(1, ranks), zeros<Scalar>(logits.rows(), logits.cols())};
  for (Eigen::Index r = 0; r < ranks; ++r) {
    Eigen::Index valid = 0;
    for (Eigen::Index t = r * tokens; t < (r + 1) * tokens; ++t) valid += is_padding(t) ? 0 : 1;
    const Scalar share = number.of(1, valid) * number.of(over == Over::sum ? valid : 1, 1);
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
      if (!is_padding(t)) squares.add_product(z, z);
      const Scalar slope = is_padding(t) ? number.of(0, 1) : z * number.of(2, 1) * share * factor;
      const Scalar inverse = number.of(1, 1) / sum.value();
      for (Eigen::Index e = 0; e < logits.cols(); ++e)
        result.gradient(t, e) = number.stored(exps[static_cast<std::size_t>(e)] * inverse * slope);
    }
    result.losses(0, r) = number.stored(squares.value() * share * factor);
  }
  return result;
}

}  // namespace verify::reference
