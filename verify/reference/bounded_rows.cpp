#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "sim/base/kernel_options.h"
#include "sim/base/vectorised.h"
#include "verify/reference/rows.h"

namespace verify::reference {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::size_t kAtOnce = 64;
constexpr std::size_t kBlock = 8;

/// Some elements of a row, with values and errors apart, up to a whole block. Elements after the last one
/// are 0.
struct Part {
  std::array<double, kAtOnce> values;
  std::array<double, kAtOnce> errors;
  std::size_t count = 0;

  std::size_t whole_blocks() const { return (count + kBlock - 1) / kBlock * kBlock; }
  void add_to(BoundedSum& sum, const Rounding* rounding) const {
    sum.add(std::span(values).first(count), std::span(errors).first(count), rounding);
  }
  Bounded element(std::size_t i, const Rounding* rounding) const { return {values[i], errors[i], rounding}; }
  /// Takes elements. Returns whether all have this Rounding.
  bool take(const Bounded* x, std::size_t n, const Rounding* rounding) {
    count = n;
    bool is_same = true;
    for (std::size_t i = 0; i < n; ++i) {
      values[i] = x[i].value();
      errors[i] = x[i].error();
      is_same &= x[i].rounding() == rounding;
    }
    for (std::size_t i = n; i < whole_blocks(); ++i) values[i] = errors[i] = 0;
    return is_same;
  }
};

/// Replaces each value and error by what f(value, error) writes. f returns whether the element is one for
/// which this is right. Returns whether it is for all.
template <typename Function>
bool replace_all(Part& part, const Function& f) {
  std::int64_t others = 0;
  sim::vectorised([&] {
    const Function own = f;  // no element can lie where its numbers lie
    std::int64_t seen = 0;
    for (std::size_t i = 0; i < part.whole_blocks(); ++i) seen |= own(part.values[i], part.errors[i]) ? 0 : 1;
    others = seen;
  });
  return others == 0;
}

/// What an operation adds to a bound, as Bounded::rounded() does.
struct Units {
  explicit Units(const Rounding* rounding)
      : unit(0x1p-53 + (rounding == nullptr ? 0 : rounding->unit)),
        least(rounding == nullptr ? 0 : rounding->least) {}
  double error_of(double value, double propagated, double units) const {
    return Bounded::error_of(value, propagated, units, unit, least);
  }
  double unit;
  double least;
};

/// Subtracts `shift` from each element. Returns whether all errors are below `most_error`.
bool subtract(Part& part, const Bounded& shift, const Units& units, double most_error) {
  const double of_shift = shift.value(), error_of_shift = shift.error();
  return replace_all(part, [=](double& value, double& error) {
    value = value - of_shift;
    error = units.error_of(value, error + error_of_shift, 1);
    return (error >= 0) & (error < most_error);
  });
}

/// Replaces each element by its exponential, where errors are small. Returns whether all are finite in the
/// arithmetic of the candidate.
bool exponentiate(Part& part, double most, const Units& units) {
  for (std::size_t i = 0; i < part.count; ++i) part.values[i] = std::exp(part.values[i]);
  return replace_all(part, [=](double& value, double& error) {
    error = units.error_of(value, value * Number<Bounded>::growth_of_small(error), 4);
    return value <= most;
  });
}

/// Calls visit with the first element of each part of a row and the number of its elements.
template <typename Visit>
void for_parts(Eigen::Index n, const Visit& visit) {
  constexpr auto kMost = static_cast<Eigen::Index>(kAtOnce);
  for (Eigen::Index first = 0; first < n; first += kMost)
    visit(first, static_cast<std::size_t>(std::min(kMost, n - first)));
}

}  // namespace

template <>
void exps_of_differences(const Number<Bounded>& number, const Bounded* x, Eigen::Index n,
                         const Bounded& shift, Bounded* exps, Sum<Bounded>& sum) {
  const Rounding& rounding = number.rounding();
  const Units units(&rounding);
  for_parts(n, [&](Eigen::Index first, std::size_t count) {
    const Bounded* from = x + first;
    Bounded* to = exps + first;
    Part part;
    const bool is_bounded = part.take(from, count, &rounding) &&
                            subtract(part, shift, units, Number<Bounded>::kSmallError) &&
                            exponentiate(part, rounding.most, units);
    if (is_bounded) {
      for (std::size_t i = 0; i < count; ++i) to[i] = part.element(i, &rounding);
      part.add_to(sum, &rounding);
    } else {
      for (std::size_t i = 0; i < count; ++i) {
        to[i] = number.exp(from[i] - shift);
        sum.add(to[i]);
      }
    }
  });
}

template <>
void add_differences(const Bounded* x, Eigen::Index n, const Bounded& shift, Sum<Bounded>& sum) {
  const Rounding* rounding = n == 0 ? nullptr : Bounded::either(x[0], shift);
  const Units units(rounding);
  for_parts(n, [&](Eigen::Index first, std::size_t count) {
    const Bounded* from = x + first;
    Part part;
    if (part.take(from, count, rounding) && subtract(part, shift, units, kInfinity)) {
      part.add_to(sum, rounding);
    } else {
      for (std::size_t i = 0; i < count; ++i) sum.add(from[i] - shift);
    }
  });
}

template <>
void scaled_differences(const Number<Bounded>& number, const Bounded* x, Eigen::Index n,
                        const ScaledDifference<Bounded>& scaled, Bounded* out) {
  const Rounding& rounding = number.rounding();
  const Units units(&rounding);
  const double store = rounding.store;
  const double factor = scaled.factor.value(), error_of_factor = scaled.factor.error();
  const double less = scaled.less.value(), error_of_less = scaled.less.error();
  const double upstream = scaled.upstream.value(), error_of_upstream = scaled.upstream.error();
  const auto scale = [=](double& value, double& error) {
    const auto error_of_product = [](double a, double of_a, double b, double of_b) {
      return std::fabs(a) * of_b + std::fabs(b) * of_a + of_a * of_b;
    };
    const double product = value * factor;
    const double of_product =
        units.error_of(product, error_of_product(value, error, factor, error_of_factor), 1);
    const double difference = product - less;
    const double of_difference = units.error_of(difference, of_product + error_of_less, 1);
    value = difference * upstream;
    const double before =
        units.error_of(value, error_of_product(difference, of_difference, upstream, error_of_upstream), 1);
    error = before + store * (std::fabs(value) + before);
    return before < kInfinity;
  };
  for_parts(n, [&](Eigen::Index first, std::size_t count) {
    const Bounded* from = x + first;
    Part part;
    const bool is_bounded = part.take(from, count, &rounding) && replace_all(part, scale);
    Bounded* to = out + first;
    if (is_bounded) {
      for (std::size_t i = 0; i < count; ++i) to[i] = part.element(i, &rounding);
    } else {
      for (std::size_t i = 0; i < count; ++i) to[i] = scaled.of(number, from[i]);
    }
  });
  if (scaled.one >= 0) out[scaled.one] = scaled.of_one(number, x[scaled.one]);
}

}  // namespace verify::reference
