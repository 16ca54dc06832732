// Proves that field elements obey the laws of a field at every level, including retired levels, and that
// exp and log turn sums into products and back.

#include "sim/base/field.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <gtest/gtest.h>
#include <limits>
#include <rapidcheck/gtest.h>
#include <vector>

#include "sim/base/field_tower.h"

namespace {

using sim::Field;
using sim::FieldTower;
using sim::kFieldLevels;
using sim::kFieldPrimes;

bool is_prime(std::int64_t n) {
  for (std::int64_t d = 2; d * d <= n; ++d) {
    if (n % d == 0) return false;
  }
  return n > 1;
}

template <std::size_t levels>
void expect_tower() {
  const auto primes = sim::field_primes<levels>();
  for (std::size_t i = 0; i < levels; ++i) {
    EXPECT_TRUE(is_prime(primes[i])) << primes[i];
    EXPECT_LT(primes[i], std::int64_t{1} << 21);
    if (i > 0) {
      EXPECT_EQ((primes[i] - 1) % primes[i - 1], 0) << primes[i];
    }
  }
}

TEST(Field, EveryTowerIsOne) {
  expect_tower<4>();
  expect_tower<5>();
  expect_tower<6>();
}

/// Draws each residue at an edge or anywhere between. In about half of the draws the lowest levels are
/// retired, at most all but the top one.
Field at_edges() {
  Field result;
  const auto retired = static_cast<std::size_t>(
      std::max(0, *rc::gen::inRange(-static_cast<int>(kFieldLevels), static_cast<int>(kFieldLevels))));
  for (std::size_t level = 0; level < kFieldLevels; ++level) {
    const std::int64_t p = kFieldPrimes[level];
    const std::int64_t residue =
        *rc::gen::oneOf(rc::gen::element<std::int64_t>(0, 1, 2, p / 2, p / 2 + 1, p - 2, p - 1),
                        rc::gen::inRange<std::int64_t>(0, p));
    result.residues[level] =
        level < retired ? std::numeric_limits<double>::quiet_NaN() : static_cast<double>(residue);
  }
  return result;
}

std::int64_t whole(const Field& x, std::size_t level) { return static_cast<std::int64_t>(x.residues[level]); }

Field drawn(const FieldTower& tower, const char* name) {
  // Whole numbers near 0 and near the primes are drawn too, because reductions wrap around there.
  if (*rc::gen::inRange(0, 3) == 0) return Field::of(*rc::gen::inRange(-3, 4));
  return tower.draw(name, *rc::gen::arbitrary<std::uint64_t>());
}

bool has_inverse(const Field& x) {
  return std::all_of(x.residues.begin(), x.residues.end(), [](double residue) { return residue != 0; });
}

// Residues equal those of whole-number arithmetic, level by level.
RC_GTEST_PROP(Field, ResiduesAreThoseOfWholeNumbers, (std::uint64_t seed)) {
  const FieldTower tower(seed);
  const Field a = drawn(tower, "a");
  const Field b = drawn(tower, "b");
  for (std::size_t level = 0; level < kFieldLevels; ++level) {
    const std::int64_t p = kFieldPrimes[level];
    const auto x = static_cast<std::int64_t>(a.residues[level]);
    const auto y = static_cast<std::int64_t>(b.residues[level]);
    RC_ASSERT((a + b).residues[level] == static_cast<double>((x + y) % p));
    RC_ASSERT((a - b).residues[level] == static_cast<double>((x - y + p) % p));
    RC_ASSERT((a * b).residues[level] == static_cast<double>(x * y % p));
    RC_ASSERT((-a).residues[level] == static_cast<double>((p - x) % p));
  }
}

RC_GTEST_PROP(Field, EdgesAndRetiredLevelsAreThoseOfWholeNumbers, ()) {
  const Field a = at_edges();
  const Field b = at_edges();
  for (std::size_t level = 0; level < kFieldLevels; ++level) {
    const bool live = a.is_live(level) && b.is_live(level);
    RC_ASSERT((a + b).is_live(level) == live);
    RC_ASSERT((a - b).is_live(level) == live);
    RC_ASSERT((a * b).is_live(level) == live);
    RC_ASSERT((-a).is_live(level) == a.is_live(level));
    if (!live) continue;
    const std::int64_t p = kFieldPrimes[level];
    const std::int64_t x = whole(a, level);
    const std::int64_t y = whole(b, level);
    RC_ASSERT(whole(a + b, level) == (x + y) % p);
    RC_ASSERT(whole(a - b, level) == (x - y + p) % p);
    RC_ASSERT(whole(a * b, level) == x * y % p);
    RC_ASSERT(whole(-a, level) == (p - x) % p);
  }
}

RC_GTEST_PROP(Field, ReducesEveryWholeNumberItMayBeGiven, ()) {
  for (std::size_t level = 0; level < kFieldLevels; ++level) {
    const std::int64_t p = kFieldPrimes[level];
    const std::int64_t largest = sim::kExactProducts * (p - 1) * (p - 1) + p - 1;
    const std::int64_t near = *rc::gen::inRange<std::int64_t>(0, largest / p) * p + *rc::gen::inRange(-2, 3);
    const std::int64_t top = largest - *rc::gen::inRange<std::int64_t>(0, 3 * p);
    const std::int64_t value = *rc::gen::element(near, top, -near, -top, p, -p, p / 2, p / 2 + 1);
    RC_ASSERT(sim::reduced(static_cast<double>(value), level) == static_cast<double>((value % p + p) % p));
  }
}

// By Fermat, x^(p - 2) is the inverse of x.
RC_GTEST_PROP(Field, QuotientsAreThoseOfPowers, ()) {
  const Field a = at_edges();
  const Field b = at_edges();
  RC_PRE(has_inverse(b));
  const Field quotient = a / b;
  for (std::size_t level = 0; level < kFieldLevels; ++level) {
    RC_ASSERT(quotient.is_live(level) == (a.is_live(level) && b.is_live(level)));
    if (!quotient.is_live(level)) continue;
    const std::int64_t p = kFieldPrimes[level];
    const std::int64_t inverse = sim::power_modulo(whole(b, level), p - 2, p);
    RC_ASSERT(whole(quotient, level) == whole(a, level) * inverse % p);
  }
}

TEST(Field, EveryResidueTimesItsInverseIsOne) {
  for (std::int64_t x = 1; x < kFieldPrimes.back(); ++x) {
    Field residues = Field::of(1);  // the value 1 stays in a level whose prime is not above x
    for (std::size_t level = 0; level < kFieldLevels; ++level) {
      if (x < kFieldPrimes[level]) residues.residues[level] = static_cast<double>(x);
    }
    ASSERT_EQ(Field::of(1) / residues * residues, Field::of(1)) << x;
  }
}

// exp(1) is the generator of each level, and exp(x) is its power.
RC_GTEST_PROP(Field, ExpIsAPowerOfItsGenerator, (std::uint64_t seed)) {
  const FieldTower tower(seed);
  const Field generator = tower.exp(Field::of(1));
  const Field x = at_edges();
  RC_PRE(x.is_live(kFieldLevels - 2));
  const Field power = tower.exp(x);
  RC_ASSERT(!power.is_live(0));
  for (std::size_t level = 0; level + 1 < kFieldLevels; ++level) {
    RC_ASSERT(power.is_live(level + 1) == x.is_live(level));
    if (!x.is_live(level)) continue;
    const std::int64_t next = kFieldPrimes[level + 1];
    RC_ASSERT(whole(generator, level + 1) != 1);
    RC_ASSERT(sim::power_modulo(whole(generator, level + 1), kFieldPrimes[level], next) == 1);
    RC_ASSERT(whole(power, level + 1) ==
              sim::power_modulo(whole(generator, level + 1), whole(x, level), next));
  }
}

RC_GTEST_PROP(Field, IsAField, (std::uint64_t seed)) {
  const FieldTower tower(seed);
  const Field a = drawn(tower, "a");
  const Field b = drawn(tower, "b");
  const Field c = drawn(tower, "c");
  RC_ASSERT(a + b == b + a);
  RC_ASSERT(a * b == b * a);
  RC_ASSERT((a + b) + c == a + (b + c));
  RC_ASSERT((a * b) * c == a * (b * c));
  RC_ASSERT(a * (b + c) == a * b + a * c);
  RC_ASSERT(a + Field::of(0) == a);
  RC_ASSERT(a * Field::of(1) == a);
  RC_ASSERT(a - a == Field::of(0));
  RC_ASSERT(max(a, b) == max(b, a));
  RC_ASSERT(min(a, b) == min(b, a));
  RC_ASSERT(max(a, b) == a || max(a, b) == b);
  if (has_inverse(b)) {
    RC_ASSERT(a / b * b == a);
    RC_ASSERT(b / b == Field::of(1));
  }
}

RC_GTEST_PROP(Field, ExpTurnsSumsIntoProducts, (std::uint64_t seed)) {
  const FieldTower tower(seed);
  const Field a = drawn(tower, "a");
  const Field b = drawn(tower, "b");
  RC_ASSERT(tower.exp(a + b) == tower.exp(a) * tower.exp(b));
  RC_ASSERT(tower.exp(a - b) == tower.exp(a) / tower.exp(b));
  // One more in the exponent always changes the result.
  RC_ASSERT(!(tower.exp(a) == tower.exp(a + Field::of(1))));
  const Field twice = tower.exp(tower.exp(a));  // two levels are retired, the others are live
  RC_ASSERT(!twice.is_live(0) && !twice.is_live(1) && twice.is_live(2) && twice.is_live(3));
}

// Softmax over two chunks with different shifts equals the softmax of the whole, and a forgotten rescale
// never does.
RC_GTEST_PROP(Field, SoftmaxMergesExactlyUnderAnyShift, (std::uint64_t seed)) {
  const FieldTower tower(seed);
  const auto count = static_cast<std::uint64_t>(*rc::gen::inRange(2, 10));
  const auto split = static_cast<std::uint64_t>(*rc::gen::inRange(1, static_cast<int>(count)));
  struct Part {
    Field numerator, denominator;
  };
  const auto part = [&](std::uint64_t begin, std::uint64_t end, const Field& shift) {
    Part sum;
    for (std::uint64_t i = begin; i < end; ++i) {
      const Field weight = tower.exp(tower.draw("score", i) - shift);
      sum.numerator = sum.numerator + weight * tower.draw("value", i);
      sum.denominator = sum.denominator + weight;
    }
    return sum;
  };
  const Field m = tower.draw("shift", 0);
  const Field m1 = tower.draw("shift", 1);
  const Field m2 = tower.draw("shift", 2);
  const Part whole = part(0, count, m);
  const Part one = part(0, split, m1);
  const Part two = part(split, count, m2);
  const Field scale1 = tower.exp(m1 - m);
  const Field scale2 = tower.exp(m2 - m);
  RC_PRE(has_inverse(whole.denominator));  // about 1 draw in 150,000 has no inverse
  const Field expected = whole.numerator / whole.denominator;
  const Field denominator = one.denominator * scale1 + two.denominator * scale2;
  RC_ASSERT((one.numerator * scale1 + two.numerator * scale2) / denominator == expected);
  RC_ASSERT(!((one.numerator * scale1 + two.numerator) / denominator == expected));
}

RC_GTEST_PROP(Field, KeyedFunctionsAgreeOnEqualInputsOnly, (std::uint64_t seed)) {
  const FieldTower tower(seed);
  const Field a = tower.draw("a", 0);
  RC_ASSERT(tower.keyed("gelu", a) == FieldTower(seed).keyed("gelu", a));
  RC_ASSERT(!(tower.keyed("gelu", a) == tower.keyed("gelu", a + Field::of(1))));
  RC_ASSERT(!(tower.keyed("gelu", a) == tower.keyed("sqrt", a)));
  RC_ASSERT(!(tower.keyed("gelu", a) == FieldTower(seed + 1).keyed("gelu", a)));
  RC_ASSERT(!tower.keyed("gelu", tower.exp(a)).is_live(0));
}

// The result of log lives on the levels below those of its argument, so its top level is retired and
// only the others are compared.
bool agree_below_the_top(const Field& of_log, const Field& expected) {
  if (of_log.is_live(kFieldLevels - 1)) return false;
  for (std::size_t level = 0; level + 1 < kFieldLevels; ++level) {
    if (of_log.residues[level] != expected.residues[level]) return false;
  }
  return true;
}

RC_GTEST_PROP(Field, LogIsTheWayBackAndTurnsProductsIntoSums, (std::uint64_t seed)) {
  const FieldTower tower(seed);
  const Field a = drawn(tower, "a");
  const Field b = drawn(tower, "b");
  RC_ASSERT(agree_below_the_top(tower.log(tower.exp(a)), a));
  RC_PRE(has_inverse(a) && has_inverse(b));
  RC_ASSERT(tower.log(a * b) == tower.log(a) + tower.log(b));
  RC_ASSERT(tower.log(a / b) == tower.log(a) - tower.log(b));
  RC_ASSERT(agree_below_the_top(tower.log(a * tower.exp(b)), tower.log(a) + b));
}

// The loss of a token does not depend on the shift: what is subtracted from the logits before exp is
// added back after log.
RC_GTEST_PROP(Field, TheLogOfASumOfExpsDoesNotDependOnTheShift, (std::uint64_t seed)) {
  const FieldTower tower(seed);
  const auto loss = [&](const Field& shift) {
    Field sum;
    for (std::uint64_t i = 0; i < 5; ++i) sum = sum + tower.exp(tower.draw("logit", i) - shift);
    return tower.log(sum) + shift;
  };
  RC_ASSERT(loss(tower.draw("shift", 0)) == loss(tower.draw("shift", 1)));
}

// By chance a residue can be zero. A quotient by it is zero in that level and can be used further. Its
// logarithm has no value, so that level is retired.
TEST(Field, QuotientsByAZeroResidueAreZeroAndLogsRetireTheirLevel) {
  Field x = Field::of(1);
  x.residues[1] = 0;
  const Field a = Field::of(5), b = Field::of(7);
  EXPECT_EQ((a / x).residues[1], 0);
  EXPECT_EQ((a / x).residues[0], 5);
  EXPECT_EQ(a / x * b, a * b / x);
  EXPECT_EQ(a / (x * b), a / x / b);
  EXPECT_EQ((a + b) / x, a / x + b / x);
  const FieldTower tower(1);
  EXPECT_FALSE(tower.log(x).is_live(0));
  EXPECT_TRUE(tower.log(x).is_live(1));
  for (std::size_t i = 0; i < kFieldLevels; ++i) x = tower.exp(x);
  for (std::size_t level = 0; level < kFieldLevels; ++level) EXPECT_FALSE(x.is_live(level));
}

// Products known from a calculation by hand: (p - 1)^2 = 1, and 2^-1 = (p + 1) / 2.
TEST(Field, KnownAnswers) {
  EXPECT_EQ(Field::of(-1) * Field::of(-1), Field::of(1));
  const Field half = Field::of(1) / Field::of(2);
  for (std::size_t level = 0; level < kFieldLevels; ++level) {
    EXPECT_EQ(half.residues[level], static_cast<double>((kFieldPrimes[level] + 1) / 2));
  }
  EXPECT_EQ(FieldTower(7).exp(Field::of(0)).residues[3], 1.0);
}

}  // namespace
