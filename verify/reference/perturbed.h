#pragma once

/// A double in which the result of every operation is perturbed by up to a unit roundoff of the candidate,
/// drawn from a seed. Perturbed runs show what rounding may do to a deep computation, for which bounds that
/// add up the worst case of each operation are too wide to be useful.
///
/// Shapes  one element. A Perturbation whose `unit` is 0 gives the plain double.
/// Exact   a candidate makes as many rounding errors of the same size, in another order. The deviations of
///         several runs with different seeds are therefore samples of the deviation that a candidate may
///         have. The bound is 16 times the largest of 12 deviations. A correct candidate misses it with a
///         probability below 10^-12 per element: for normally distributed deviations, the largest of 12 is
///         below half a standard deviation with probability 0.38^12, and 16 such halves are exceeded with
///         probability 10^-15.
/// Source  Parker 1997, Monte Carlo arithmetic; Vignes 1978 (CESTAC).

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "sim/base/vectorised.h"
#include "verify/reference/matrix.h"

namespace verify::reference {

struct SpreadSize {
  int runs = 12;           // number of perturbed runs
  double deviations = 16;  // the bound, in multiples of the largest deviation
  /// A deviation counts as at least the mean deviation of its tensor divided by this number: 8 means an
  /// eighth of the mean. With 0 a deviation always counts as itself.
  int least_share = 0;
};
/// The size for long computations. The largest of 4 deviations is below a ninth of a standard deviation with
/// a probability of 1 in 15,000, and 48 ninths are more than five standard deviations. Among tens of
/// thousands of elements a few have an even smaller largest deviation; it is raised to an eighth of the mean
/// of its tensor.
inline constexpr SpreadSize kFewRuns = {4, 48, 8};

struct Perturbation {
  double unit = 0;          // unit roundoff of an operation
  double store = 0;         // unit roundoff of the elements of a tensor
  std::uint64_t state = 0;  // of the generator; it starts as the seed

  /// Returns the value with an error of up to `units` unit roundoffs.
  double rounded(double value, double units) {
    return unit == 0 ? value : value * (1 + units * unit * draw());
  }

  /// A number from -1 to 1.
  double draw() { return static_cast<double>(static_cast<std::int64_t>(bits())) * 0x1p-63; }
  /// Source: Steele et al. 2014, SplitMix64.
  std::uint64_t bits() {
    state += 0x9e3779b97f4a7c15U;
    std::uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }
};

class Perturbed {
 public:
  Perturbed() = default;
  explicit Perturbed(double value, Perturbation* by = nullptr) : value_(value), by_(by) {}
  double value() const { return value_; }
  /// Null for a number that is as the program wrote it, such as a zero.
  Perturbation* by() const { return by_; }

  static Perturbed rounded(double value, double units, Perturbation* by) {
    return Perturbed(by == nullptr ? value : by->rounded(value, units), by);
  }
  friend Perturbed operator+(const Perturbed& a, const Perturbed& b) {
    return rounded(a.value_ + b.value_, 1, either(a, b));
  }
  friend Perturbed operator-(const Perturbed& a, const Perturbed& b) {
    return rounded(a.value_ - b.value_, 1, either(a, b));
  }
  friend Perturbed operator-(const Perturbed& a) { return Perturbed(-a.value_, a.by_); }
  friend Perturbed operator*(const Perturbed& a, const Perturbed& b) {
    return rounded(a.value_ * b.value_, 1, either(a, b));
  }
  friend Perturbed operator/(const Perturbed& a, const Perturbed& b) {
    return rounded(a.value_ / b.value_, 1, either(a, b));
  }

 private:
  static Perturbation* either(const Perturbed& a, const Perturbed& b) {
    return a.by_ != nullptr ? a.by_ : b.by_;
  }
  double value_ = 0;
  Perturbation* by_ = nullptr;
};

template <>
class Number<Perturbed> {
 public:
  explicit Number(Perturbation& by) : by_(&by) {}
  Perturbation& by() const { return *by_; }
  Perturbed of(std::int64_t numerator, std::int64_t denominator) const {
    return Perturbed::rounded(static_cast<double>(numerator) / static_cast<double>(denominator),
                              denominator == 1 ? 0 : 1, by_);
  }
  Perturbed exact(double value) const { return Perturbed(value, by_); }
  Perturbed near(double value, double) const { return Perturbed::rounded(value, 1, by_); }
  Perturbed real(double value) const { return Perturbed::rounded(value, 2, by_); }
  Perturbed stored(const Perturbed& x) const {
    if (by_->store == 0) return x;
    return Perturbed(x.value() * (1 + by_->store * by_->draw()), by_);
  }
  Perturbed exp(const Perturbed& x) const { return function(std::exp(x.value())); }
  Perturbed log(const Perturbed& x) const { return function(std::log(x.value())); }
  Perturbed rsqrt(const Perturbed& x) const { return function(1 / std::sqrt(x.value())); }
  Perturbed sqrt(const Perturbed& x) const { return Perturbed::rounded(std::sqrt(x.value()), 1, by_); }
  Perturbed tanh(const Perturbed& x) const { return function(std::tanh(x.value())); }
  Perturbed erf(const Perturbed& x) const { return function(std::erf(x.value())); }
  /// The smaller of c and 1, or 1 if c is NaN.
  Perturbed clipped(const Perturbed& c) const {
    return std::isnan(c.value()) ? of(1, 1) : Perturbed(std::min(c.value(), 1.0), by_);
  }
  Perturbed larger(const Perturbed& a, const Perturbed& b) const {
    return Perturbed(std::max(a.value(), b.value()), by_);
  }
  Perturbed softmax_shift(const std::vector<Perturbed>& row) const { return largest_of(*this, row); }
  Perturbed activation(Activation function_of, bool derivative, const Perturbed& x) const {
    return activation_in_steps(*this, function_of, derivative, x);
  }
  template <typename Steps>
  Perturbed function(const std::string& /*name*/, const Perturbed& x, const Steps& steps) const {
    return steps(*this, x);
  }

 private:
  /// Two of the candidate's units in the last place are four of its unit roundoffs.
  Perturbed function(double value) const { return Perturbed::rounded(value, 4, by_); }
  Perturbation* by_;
};

template <>
class Sum<Perturbed> {
 public:
  void add(const Perturbed& term) { sum_ = sum_ + term; }
  void add_product(const Perturbed& a, const Perturbed& b) { sum_ = sum_ + a * b; }
  Perturbed value() const { return sum_; }
  Perturbed value_in_parts() const { return sum_; }

 private:
  Perturbed sum_;
};

/// Draws for four columns of a product at a time. A word of 32 bits gives two draws, of the rounding of a
/// term and of the sum, each one of 2^16 numbers from -1 to 1 whose mean is 0.
/// Source: Wellons 2018 (lowbias32).
class ProductDraws {
 public:
  static constexpr int kLanes = 4;
  using Words = std::uint32_t __attribute__((vector_size(16)));
  using SignedWords = std::int32_t __attribute__((vector_size(16)));
  using Doubles = double __attribute__((vector_size(32)));

  explicit ProductDraws(Perturbation& by) : center_(1 + by.unit * 0x1p-16), slope_(by.unit * 0x1p-15) {
    for (int lane = 0; lane < kLanes; lane += 2) {
      const std::uint64_t bits = by.bits();
      state_[lane] = static_cast<std::uint32_t>(bits);
      state_[lane + 1] = static_cast<std::uint32_t>(bits >> 32);
    }
  }
  /// Adds the products of `left` and four columns to their sums, each rounded, and the sums rounded.
  [[gnu::always_inline]] void add_products(double left, const double* right, Doubles& sums) {
    state_ += 0x9e3779b9U;
    Words h = state_;
    h = (h ^ (h >> 16)) * 0x7feb352dU;
    h = (h ^ (h >> 15)) * 0x846ca68bU;
    const auto words = reinterpret_cast<SignedWords>(h ^ (h >> 16));
    const Doubles of_term = __builtin_convertvector((words << 16) >> 16, Doubles);
    const Doubles of_sum = __builtin_convertvector(words >> 16, Doubles);
    Doubles columns;
    std::memcpy(&columns, right, sizeof(columns));
    sums = (sums + left * columns * (center_ + slope_ * of_term)) * (center_ + slope_ * of_sum);
  }

 private:
  double center_, slope_;  // 1 + unit (2 d + 1) / 2^16, where d is from -2^15 to 2^15 - 1
  Words state_ = {};
};

/// The product, with draws for four columns at a time.
template <>
inline Matrix<Perturbed> product(const Number<Perturbed>& number, const Matrix<Perturbed>& a,
                                 const Matrix<Perturbed>& b) {
  constexpr Eigen::Index kLanes = ProductDraws::kLanes;
  const Eigen::Index rows = a.rows(), terms = a.cols(), columns = b.cols();
  const Eigen::Index padded = (columns + kLanes - 1) / kLanes * kLanes;
  Perturbation& by = number.by();
  std::vector<double> right(static_cast<std::size_t>(terms * padded));
  for (Eigen::Index k = 0; k < terms; ++k)
    for (Eigen::Index j = 0; j < columns; ++j)
      right[static_cast<std::size_t>(k * padded + j)] = b(k, j).value();
  Matrix<Perturbed> result(rows, columns);
  sim::vectorised([&] {
    ProductDraws draws(by);
    for (Eigen::Index i = 0; i < rows; ++i) {
      const Perturbed* left = a.data() + i * terms;
      for (Eigen::Index j = 0; j < columns; j += kLanes) {
        ProductDraws::Doubles sums = {};
        for (Eigen::Index k = 0; k < terms; ++k)
          draws.add_products(left[k].value(), right.data() + k * padded + j, sums);
        for (Eigen::Index lane = 0; lane < std::min(kLanes, columns - j); ++lane)
          result(i, j + lane) = Perturbed(sums[lane], &by);
      }
    }
  });
  if (by.store == 0) return result;
  for (Eigen::Index i = 0; i < result.size(); ++i) result.data()[i] = number.stored(result.data()[i]);
  return result;
}

}  // namespace verify::reference
