#pragma once

/// The embedding lookup, which takes rows of a table by id, and the gradient of the table, on one device.

#include <vector>

#include "verify/reference/matrix.h"

namespace verify::reference {

using Ids = std::vector<std::int64_t>;

template <typename Scalar>
Matrix<Scalar> embedding(const Matrix<Scalar>& table, const Ids& ids) {
  Matrix<Scalar> y(static_cast<Eigen::Index>(ids.size()), table.cols());
  for (std::size_t t = 0; t < ids.size(); ++t) y.row(static_cast<Eigen::Index>(t)) = table.row(ids[t]);
  return y;
}

template <typename Scalar>
Matrix<Scalar> embedding_gradient(const Number<Scalar>& number, const Matrix<Scalar>& table, const Ids& ids,
                                  const Matrix<Scalar>& grad) {
  return matrix_of(number, table.rows(), table.cols(), [&](Eigen::Index v, Eigen::Index f) {
    Sum<Scalar> sum;
    for (std::size_t t = 0; t < ids.size(); ++t) {
      if (ids[t] == v) sum.add(grad(static_cast<Eigen::Index>(t), f));
    }
    return sum.value();
  });
}

}  // namespace verify::reference
