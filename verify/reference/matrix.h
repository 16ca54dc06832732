#pragma once

/// The matrices that references compute with, and their product. Eigen stores the elements. Sums are taken by
/// Sum (number.h), which knows by how much another order of summation may change the result.
///
/// Shapes  rows are tokens or outputs, and columns are features; a vector is a matrix of one row.

#include <Eigen/Core>
#include <algorithm>
#include <cstdint>
#include <source_location>
#include <string_view>
#include <type_traits>
#include <vector>

#include "sim/base/vectorised.h"
#include "verify/reference/number.h"

namespace verify::reference {

template <typename Scalar>
using Matrix = Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

template <typename Scalar>
Matrix<Scalar> zeros(Eigen::Index rows, Eigen::Index columns) {
  static_assert(!std::is_trivially_default_constructible_v<Scalar>, "a scalar of references begins as 0");
  return Matrix<Scalar>(rows, columns);
}

/// Returns the matrix whose element (i, j) is f(i, j), rounded to what a tensor of the candidate can hold.
template <typename Scalar, typename Element>
Matrix<Scalar> matrix_of(const Number<Scalar>& number, Eigen::Index rows, Eigen::Index columns,
                         const Element& f) {
  Matrix<Scalar> result(rows, columns);
  for (Eigen::Index i = 0; i < rows; ++i) {
    for (Eigen::Index j = 0; j < columns; ++j) result(i, j) = number.stored(f(i, j));
  }
  return result;
}

template <typename Scalar>
Matrix<Scalar> product(const Number<Scalar>& number, const Matrix<Scalar>& a, const Matrix<Scalar>& b) {
  return matrix_of(number, a.rows(), b.cols(), [&](Eigen::Index i, Eigen::Index j) {
    Sum<Scalar> sum;
    for (Eigen::Index k = 0; k < a.cols(); ++k) sum.add_product(a(i, k), b(k, j));
    return sum.value_in_parts();
  });
}

/// The product in the field, whose sums are exact in any order: four columns at a time.
template <>
inline Matrix<sim::Field> product(const Number<sim::Field>&, const Matrix<sim::Field>& a,
                                  const Matrix<sim::Field>& b) {
  constexpr Eigen::Index kColumns = 4;
  const Eigen::Index rows = a.rows(), terms = a.cols(), columns = b.cols();
  Matrix<sim::Field> result(rows, columns);
  sim::vectorised([&] {
    for (Eigen::Index i = 0; i < rows; ++i) {
      const sim::Field* left = a.data() + i * terms;
      Eigen::Index j = 0;
      for (; j + kColumns <= columns; j += kColumns) {
        sim::FieldSum sums[kColumns];
        for (Eigen::Index k = 0; k < terms; ++k) {
          const sim::Field* right = b.data() + k * columns + j;
#pragma GCC unroll 4
          for (Eigen::Index c = 0; c < kColumns; ++c) sums[c].add_product(left[k], right[c]);
        }
        for (Eigen::Index c = 0; c < kColumns; ++c) result(i, j + c) = sums[c].value();
      }
      for (; j < columns; ++j) {
        sim::FieldSum sum;
        for (Eigen::Index k = 0; k < terms; ++k) sum.add_product(left[k], b.data()[k * columns + j]);
        result(i, j) = sum.value();
      }
    }
  });
  return result;
}

/// Returns the sum over all rows as a matrix of one row.
template <typename Scalar>
Matrix<Scalar> column_sums(const Number<Scalar>& number, const Matrix<Scalar>& x) {
  return matrix_of(number, 1, x.cols(), [&](Eigen::Index, Eigen::Index j) {
    Sum<Scalar> sum;
    for (Eigen::Index i = 0; i < x.rows(); ++i) sum.add(x(i, j));
    return sum.value_in_parts();
  });
}

/// The sums of two branches that references take on this thread: where they stand, and one of them in which a
/// branch is left out or counts twice, for an experiment.
class BranchSums {
 public:
  using Line = std::source_location;
  struct Times {
    std::int64_t first = 1, second = 1;
    bool operator==(const Times&) const = default;
  };

  BranchSums() : before_(latest_) { latest_ = this; }
  /// All sums at this line have their branches so many times.
  BranchSums(const Line& line, Times times) : BranchSums() {
    line_ = line;
    times_ = times;
  }
  ~BranchSums() { latest_ = before_; }
  BranchSums(const BranchSums&) = delete;
  BranchSums& operator=(const BranchSums&) = delete;

  /// The lines of the sums so far, each once.
  const std::vector<Line>& lines() const { return lines_; }
  static Times times_at(const Line& line) { return latest_ == nullptr ? Times() : latest_->taken(line); }

 private:
  static bool is_same(const Line& a, const Line& b) {
    return a.line() == b.line() && std::string_view(a.file_name()) == b.file_name();
  }
  Times taken(const Line& line) {
    if (std::ranges::none_of(lines_, [&](const Line& known) { return is_same(known, line); }))
      lines_.push_back(line);
    return is_same(line, line_) ? times_ : Times();
  }

  static inline thread_local BranchSums* latest_ = nullptr;
  BranchSums* before_;
  Line line_ = {};
  Times times_ = {};
  std::vector<Line> lines_;
};

template <typename Scalar>
Matrix<Scalar> added(const Number<Scalar>& number, const Matrix<Scalar>& a, const Matrix<Scalar>& b,
                     std::source_location line = std::source_location::current()) {
  const BranchSums::Times times = BranchSums::times_at(line);
  if (times == BranchSums::Times())
    return matrix_of(number, a.rows(), a.cols(),
                     [&](Eigen::Index i, Eigen::Index j) { return a(i, j) + b(i, j); });
  const Scalar first = number.of(times.first, 1), second = number.of(times.second, 1);
  return matrix_of(number, a.rows(), a.cols(),
                   [&](Eigen::Index i, Eigen::Index j) { return first * a(i, j) + second * b(i, j); });
}

template <typename Scalar>
Matrix<Scalar> transposed(const Matrix<Scalar>& x) {
  return x.transpose();
}

}  // namespace verify::reference
