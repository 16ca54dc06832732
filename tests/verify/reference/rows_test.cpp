// Proves that the vector code for rows of bounded numbers gives the numbers and bounds of the loop over
// scalars, bit for bit, also where elements are not finite, have no bound or no Rounding.

#include "verify/reference/rows.h"

#include <cstring>
#include <gtest/gtest.h>
#include <limits>
#include <rapidcheck/gtest.h>
#include <vector>

#include "sim/base/keyed_random.h"

namespace {

using namespace verify::reference;
using Row = std::vector<Bounded>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

bool same_bits(double a, double b) { return std::memcmp(&a, &b, sizeof a) == 0 || (a != a && b != b); }
bool same(const Bounded& a, const Bounded& b) {
  return same_bits(a.value(), b.value()) && same_bits(a.error(), b.error()) && a.rounding() == b.rounding();
}
void expect_same(const Row& got, const Row& expected) {
  for (std::size_t i = 0; i < got.size(); ++i) RC_ASSERT(same(got[i], expected[i]));
}

/// The functions of rows as loops over scalars.
struct Loops {
  const Number<Bounded>& number;
  Bounded sum_of_exps(const Row& x, const Bounded& shift, Row& exps) const {
    Sum<Bounded> sum;
    for (std::size_t i = 0; i < x.size(); ++i) {
      exps[i] = number.exp(x[i] - shift);
      sum.add(exps[i]);
    }
    return sum.value_in_parts();
  }
  Bounded sum_of_differences(const Row& x, const Bounded& shift) const {
    Sum<Bounded> sum;
    for (const Bounded& element : x) sum.add(element - shift);
    return sum.value_in_parts();
  }
};

/// A row that may hold what vector code must leave to the loop.
struct Drawn {
  Drawn(std::uint64_t seed, std::size_t count, const Rounding& rounding, bool has_specials)
      : random(sim::KeyedRandom(seed).named("row")) {
    for (std::size_t i = 0; i < count; ++i) row.push_back(number(3 * i, rounding));
    if (!has_specials || count == 0) return;
    const Bounded specials[] = {{std::numeric_limits<double>::quiet_NaN(), 0, &rounding},
                                {kInfinity, 0, &rounding},
                                {-kInfinity, 0, &rounding},
                                {1, kInfinity, &rounding},
                                {1, -1, &rounding},
                                {1, 0.5, &rounding},
                                {800, 0, &rounding},
                                {0.5, 0, nullptr}};
    row[random.below(1'000'000, static_cast<std::uint32_t>(count))] =
        specials[random.below(1'000'001, std::size(specials))];
  }
  Bounded number(std::size_t index, const Rounding& rounding) const {
    const double value = 8 * random.uniform(index) - 4;
    return {value, random.uniform(index + 1) * 0x1p-20, &rounding};
  }
  sim::KeyedRandom random;
  Row row;
};

Rounding drawn_rounding() {
  const int parts = *rc::gen::inRange(1, 9);
  switch (*rc::gen::inRange(0, 3)) {
    case 0:
      return rounding_of_f64(parts);
    case 1:
      return rounding_of_f32(parts);
    default:
      return rounding_of_bf16(parts);
  }
}

RC_GTEST_PROP(Rows, AreWhatALoopGives, (std::uint64_t seed, bool has_specials)) {
  const Rounding rounding = drawn_rounding();
  const Number<Bounded> number(rounding);
  const auto count = *rc::gen::inRange<std::size_t>(1, 150);
  const Drawn drawn(seed, count, rounding, has_specials);
  const Row& x = drawn.row;
  const auto n = static_cast<Eigen::Index>(count);
  const Bounded shift = drawn.number(3 * count, rounding);
  const Loops loops{number};

  Row exps(count), exps_of_loop(count);
  Sum<Bounded> sum, differences;
  exps_of_differences(number, x.data(), n, shift, exps.data(), sum);
  RC_ASSERT(same(sum.value_in_parts(), loops.sum_of_exps(x, shift, exps_of_loop)));
  expect_same(exps, exps_of_loop);
  add_differences(x.data(), n, shift, differences);
  RC_ASSERT(same(differences.value_in_parts(), loops.sum_of_differences(x, shift)));

  const ScaledDifference<Bounded> scaled{.factor = drawn.number(3 * count + 3, rounding),
                                         .less = drawn.number(3 * count + 6, rounding),
                                         .upstream = drawn.number(3 * count + 9, rounding),
                                         .one = *rc::gen::inRange<Eigen::Index>(-1, n),
                                         .less_of_one = drawn.number(3 * count + 12, rounding)};
  Row out(count), out_of_loop(count);
  scaled_differences(number, x.data(), n, scaled, out.data());
  for (std::size_t i = 0; i < count; ++i) {
    const Bounded difference = x[i] * scaled.factor - scaled.less;
    const bool is_one = static_cast<Eigen::Index>(i) == scaled.one;
    out_of_loop[i] = number.stored((is_one ? difference - scaled.less_of_one : difference) * scaled.upstream);
  }
  expect_same(out, out_of_loop);
}

/// e^error - 1 is never understated, and overstated by less than a rounding.
RC_GTEST_PROP(Rows, GrowthOfExpIsABound, ()) {
  const double error = std::ldexp(1 + *rc::gen::inRange(0, 1000) / 1000.0, *rc::gen::inRange(-80, -9));
  const long double exact = std::expm1(static_cast<long double>(error));
  const long double bound = Number<Bounded>::growth_of_exp(error);
  RC_ASSERT(bound * (1 + 0x1p-50L) >= exact);
  RC_ASSERT(bound <= exact * (1 + 0x1p-48L));
}

}  // namespace
