#pragma once

/// LayerNorm and RMSNorm with their gradients, on one device.
///
/// Shapes  x [T, H], weight [1, H], bias [1, H] or empty.
/// Source  Ba et al. 2016; Zhang and Sennrich 2019.

#include <vector>

#include "verify/reference/matrix.h"

namespace verify::reference {

struct NormSetting {
  bool is_layer_norm = true;  // false: RMSNorm, which does not subtract the mean
  std::int64_t epsilon_numerator = 1;
  std::int64_t epsilon_denominator = 100000;
};

/// The normalized input, (x - mean) / sqrt(variance + epsilon), with the factor of each row.
template <typename Scalar>
struct Normal {
  Matrix<Scalar> x;
  std::vector<Scalar> rstd;  // by row: 1 / sqrt(variance + epsilon)
};

template <typename Scalar>
Normal<Scalar> normal(const Number<Scalar>& number, const Matrix<Scalar>& x, const NormSetting& setting) {
  const Scalar per_column = number.of(1, x.cols());
  Normal<Scalar> result{Matrix<Scalar>(x.rows(), x.cols()), {}};
  for (Eigen::Index t = 0; t < x.rows(); ++t) {
    Scalar mean = number.of(0, 1);
    if (setting.is_layer_norm) {
      Sum<Scalar> sum;
      for (Eigen::Index f = 0; f < x.cols(); ++f) sum.add(x(t, f));
      mean = sum.value() * per_column;
    }
    Sum<Scalar> squares;
    for (Eigen::Index f = 0; f < x.cols(); ++f) squares.add_product(x(t, f) - mean, x(t, f) - mean);
    const Scalar variance = squares.value() * per_column;
    const Scalar rstd =
        number.rsqrt(variance + number.of(setting.epsilon_numerator, setting.epsilon_denominator));
    for (Eigen::Index f = 0; f < x.cols(); ++f) result.x(t, f) = (x(t, f) - mean) * rstd;
    result.rstd.push_back(rstd);
  }
  return result;
}

/// The output for an input that is normalized already.
template <typename Scalar>
Matrix<Scalar> norm_of_normal(const Number<Scalar>& number, const Normal<Scalar>& n,
                              const Matrix<Scalar>& weight, const Matrix<Scalar>& bias) {
  return matrix_of(number, n.x.rows(), n.x.cols(), [&](Eigen::Index t, Eigen::Index f) {
    const Scalar scaled = n.x(t, f) * weight(0, f);
    return bias.size() == 0 ? scaled : scaled + bias(0, f);
  });
}
template <typename Scalar>
Matrix<Scalar> norm(const Number<Scalar>& number, const Matrix<Scalar>& x, const Matrix<Scalar>& weight,
                    const Matrix<Scalar>& bias, const NormSetting& setting) {
  return norm_of_normal(number, normal(number, x, setting), weight, bias);
}

template <typename Scalar>
struct NormGradients {
  Matrix<Scalar> x, weight, bias;
};

/// The gradients for an input that is normalized already.
template <typename Scalar>
NormGradients<Scalar> norm_gradients(const Number<Scalar>& number, const Normal<Scalar>& n,
                                     const Matrix<Scalar>& weight, const Matrix<Scalar>& grad,
                                     const NormSetting& setting) {
  const Matrix<Scalar>& x = n.x;
  const Scalar per_column = number.of(1, x.cols());
  NormGradients<Scalar> result{Matrix<Scalar>(x.rows(), x.cols()), Matrix<Scalar>(1, x.cols()),
                               column_sums(number, grad)};
  for (Eigen::Index t = 0; t < x.rows(); ++t) {
    Sum<Scalar> ones;
    Sum<Scalar> normals;
    for (Eigen::Index f = 0; f < x.cols(); ++f) {
      ones.add(grad(t, f) * weight(0, f));
      normals.add(grad(t, f) * weight(0, f) * n.x(t, f));
    }
    const Scalar along_one = setting.is_layer_norm ? ones.value() * per_column : number.of(0, 1);
    const Scalar along_normal = normals.value() * per_column;
    for (Eigen::Index f = 0; f < x.cols(); ++f) {
      const Scalar slope = grad(t, f) * weight(0, f);
      result.x(t, f) =
          number.stored((slope - along_one - n.x(t, f) * along_normal) * n.rstd[static_cast<std::size_t>(t)]);
    }
  }
  for (Eigen::Index f = 0; f < x.cols(); ++f) {
    Sum<Scalar> sum;
    for (Eigen::Index t = 0; t < x.rows(); ++t) sum.add_product(grad(t, f), n.x(t, f));
    result.weight(0, f) = number.stored(sum.value_in_parts());
  }
  return result;
}
template <typename Scalar>
NormGradients<Scalar> norm_gradients(const Number<Scalar>& number, const Matrix<Scalar>& x,
                                     const Matrix<Scalar>& weight, const Matrix<Scalar>& grad,
                                     const NormSetting& setting) {
  return norm_gradients(number, normal(number, x, setting), weight, grad, setting);
}

}  // namespace verify::reference
