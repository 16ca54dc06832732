// The product of perturbed matrices draws four columns at a time. Its elements must deviate as much as those
// of Sum, which draws for one product after the other.

#include "verify/reference/perturbed.h"

#include <cmath>
#include <gtest/gtest.h>
#include <vector>

#include "sim/base/keyed_random.h"

namespace verify::reference {
namespace {

constexpr double kUnit = 0x1p-24;
constexpr Eigen::Index kRows = 3, kTerms = 40, kColumns = 6;  // the last columns are half of four

Matrix<Perturbed> drawn(const Number<Perturbed>& number, const char* name, Eigen::Index rows,
                        Eigen::Index columns) {
  const sim::KeyedRandom random = sim::KeyedRandom(1).named(name);
  Matrix<Perturbed> values(rows, columns);
  for (Eigen::Index i = 0; i < values.size(); ++i)
    values.data()[i] = number.exact(random.uniform(static_cast<std::uint64_t>(i)) - 0.5);
  return values;
}

double exact_element(const Matrix<Perturbed>& a, const Matrix<Perturbed>& b, Eigen::Index i, Eigen::Index j) {
  double sum = 0;
  for (Eigen::Index k = 0; k < a.cols(); ++k) sum += a(i, k).value() * b(k, j).value();
  return sum;
}

Perturbed element_by_sum(const Matrix<Perturbed>& a, const Matrix<Perturbed>& b, Eigen::Index i,
                         Eigen::Index j) {
  Sum<Perturbed> sum;
  for (Eigen::Index k = 0; k < a.cols(); ++k) sum.add_product(a(i, k), b(k, j));
  return sum.value();
}

/// The mean and the root of the mean square of deviations, in units.
struct Deviation {
  double sum = 0, squares = 0, count = 0;
  void add(double value, double exact) {
    const double deviation = (value - exact) / kUnit;
    sum += deviation;
    squares += deviation * deviation;
    ++count;
  }
  double mean() const { return sum / count; }
  double root() const { return std::sqrt(squares / count); }
};

TEST(PerturbedProduct, IsThePlainProductWithoutAUnit) {
  Perturbation none;
  const Number<Perturbed> number(none);
  const auto a = drawn(number, "a", kRows, kTerms), b = drawn(number, "b", kTerms, kColumns);
  const Matrix<Perturbed> c = product(number, a, b);
  for (Eigen::Index i = 0; i < kRows; ++i)
    for (Eigen::Index j = 0; j < kColumns; ++j) EXPECT_EQ(c(i, j).value(), exact_element(a, b, i, j));
}

TEST(PerturbedProduct, DeviatesAsASumOfItsTermsInEveryColumn) {
  Perturbation by{.unit = kUnit, .state = 1};
  const Number<Perturbed> number(by);
  const auto a = drawn(number, "a", kRows, kTerms), b = drawn(number, "b", kTerms, kColumns);
  std::vector<Deviation> of_product(kColumns), of_sum(kColumns);
  constexpr int kRuns = 4000;
  for (int run = 0; run < kRuns; ++run) {
    const Matrix<Perturbed> c = product(number, a, b);
    for (Eigen::Index i = 0; i < kRows; ++i) {
      for (Eigen::Index j = 0; j < kColumns; ++j) {
        const auto column = static_cast<std::size_t>(j);
        const double exact = exact_element(a, b, i, j);
        of_product[column].add(c(i, j).value(), exact);
        of_sum[column].add(element_by_sum(a, b, i, j).value(), exact);
      }
    }
  }
  // Bounds of five standard errors, which are chosen. A root of n deviations has one of 1 / sqrt(2 n) of its
  // size, so that the ratio of two has one of 1 / sqrt(n); a mean has one of 1 / sqrt(n) of the root.
  const double bound = 5 / std::sqrt(static_cast<double>(kRuns) * kRows);
  for (std::size_t column = 0; column < of_product.size(); ++column) {
    EXPECT_LT(std::abs(of_product[column].root() / of_sum[column].root() - 1), bound) << column;
    EXPECT_LT(std::abs(of_product[column].mean() / of_product[column].root()), bound) << column;
  }
}

TEST(PerturbedProduct, DrawsAnewForEachProductAndSeed) {
  Perturbation first{.unit = kUnit, .state = 1}, second{.unit = kUnit, .state = 2};
  const Number<Perturbed> of_first(first), of_second(second);
  const auto a = drawn(of_first, "a", 1, kTerms), b = drawn(of_first, "b", kTerms, 1);
  const double once = product(of_first, a, b)(0, 0).value();
  EXPECT_NE(once, product(of_first, a, b)(0, 0).value());
  EXPECT_NE(once, product(of_second, a, b)(0, 0).value());
}

}  // namespace
}  // namespace verify::reference
