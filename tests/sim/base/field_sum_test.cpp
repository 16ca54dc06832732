// Proves that a sum with delayed reductions equals repeated addition, up to the largest sum between two
// reductions.

#include "sim/base/field_sum.h"

#include <cstddef>
#include <cstdint>
#include <gtest/gtest.h>
#include <limits>
#include <rapidcheck/gtest.h>

#include "sim/base/field_tower.h"

namespace {

using sim::Field;
using sim::FieldSum;
using sim::FieldTower;
using sim::kFieldLevels;
using sim::kFieldPrimes;

/// Draws a count near 0, near the first or the second reduction, between them, or beyond the second.
std::uint64_t drawn_count() {
  return static_cast<std::uint64_t>(*rc::gen::oneOf(rc::gen::inRange(0, 4), rc::gen::inRange(2045, 2052),
                                                    rc::gen::inRange(4093, 4100), rc::gen::inRange(4, 6200)));
}

/// Mostly p - 1 in every level, which makes the largest sums, and otherwise any value.
Field large(const FieldTower& tower, const char* name, std::uint64_t index) {
  return index % 8 == 0 ? tower.draw(name, index) : Field::of(-1);
}

RC_GTEST_PROP(FieldSum, IsRepeatedAddition, (std::uint64_t seed)) {
  const FieldTower tower(seed);
  const std::uint64_t count = drawn_count();
  const auto every =
      static_cast<std::uint64_t>(*rc::gen::inRange(2, 9));  // one term in `every` is not a product
  FieldSum sum;
  Field expected;
  for (std::uint64_t i = 0; i < count; ++i) {
    const Field a = large(tower, "a", i);
    const Field b = large(tower, "b", i);
    if (i % every == 0) {
      sum.add(a);
      expected = expected + a;
    } else {
      sum.add_product(a, b);
      expected = expected + a * b;
    }
  }
  RC_ASSERT(sum.value() == expected);
  RC_ASSERT(sum.value() == expected);  // asking for the value changes nothing
}

// (p - 1)^2 is 1 modulo p, so n of the largest products add up to n.
RC_GTEST_PROP(FieldSum, TheLargestProductsAreCounted, ()) {
  const std::uint64_t count = drawn_count();
  FieldSum sum;
  for (std::uint64_t i = 0; i < count; ++i) sum.add_product(Field::of(-1), Field::of(-1));
  RC_ASSERT(sum.value() == Field::of(static_cast<std::int64_t>(count)));
}

// The bound itself: a reduction leaves a residue of p - 1, and kExactProducts products of (p - 1)^2 follow.
TEST(FieldSum, HoldsTheLargestSumBetweenReductions) {
  FieldSum sum;
  for (std::int64_t i = 0; i + 1 < sim::kExactProducts; ++i) sum.add_product(Field::of(-1), Field::of(-1));
  sum.add(Field::of(-sim::kExactProducts));
  ASSERT_EQ(sum.value(), Field::of(-1));
  for (std::int64_t i = 0; i < sim::kExactProducts; ++i) sum.add_product(Field::of(-1), Field::of(-1));
  EXPECT_EQ(sum.value(), Field::of(sim::kExactProducts - 1));
}

RC_GTEST_PROP(FieldSum, ARetiredLevelRetiresTheSum, (std::uint64_t seed)) {
  const FieldTower tower(seed);
  const std::uint64_t count = drawn_count() + 1;
  const std::uint64_t which = *rc::gen::inRange<std::uint64_t>(0, count);
  const bool as_product = *rc::gen::arbitrary<bool>();
  FieldSum sum;
  Field expected;
  for (std::uint64_t i = 0; i < count; ++i) {
    Field a = Field::of(static_cast<std::int64_t>(i));
    if (i == which) a.residues[0] = std::numeric_limits<double>::quiet_NaN();
    as_product ? sum.add_product(Field::of(-1), a) : sum.add(a);
    expected = as_product ? expected - a : expected + a;
  }
  RC_ASSERT(!sum.value().is_live(0));
  RC_ASSERT(sum.value() == expected);
}

TEST(FieldSum, OfNothingIsZero) { EXPECT_EQ(FieldSum().value(), Field::of(0)); }

}  // namespace
