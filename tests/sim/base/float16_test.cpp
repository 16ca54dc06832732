// Proves that every float16 survives a round trip through float, and that rounding goes to the nearest value, with
// ties to even.

#include "sim/base/float16.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <rapidcheck/gtest.h>

namespace {

using sim::float16;
using sim::to_float;
using sim::to_float16;

/// The definition: a sign, five bits of exponent and ten of fraction.
double value_of(float16 number) {
  const int exponent = number.bits >> 10 & 0x1f, fraction = number.bits & 0x3ff;
  const double size = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  return number.bits >> 15 == 0 ? size : -size;
}

bool is_finite(float16 number) { return (number.bits & 0x7c00) != 0x7c00; }

TEST(Float16, EveryValueIsTheDefinitionsAndSurvivesTheRoundTrip) {
  for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const float16 number{static_cast<std::uint16_t>(bits)};
    const float value = to_float(number);
    if (is_finite(number)) {
      EXPECT_EQ(double{value}, value_of(number)) << bits;
      EXPECT_EQ(std::signbit(value), bits >> 15 != 0) << bits;
    }
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(to_float(to_float16(value)))) << bits;
    } else {
      EXPECT_EQ(to_float16(value), number) << bits;
    }
  }
}

// The definition: no float16 is nearer, and of two that are equally near the even one is taken. Values in the middle
// between two of them, and beside it, are drawn.
RC_GTEST_PROP(Float16, RoundsToTheNearestTiesToEven, ()) {
  const float16 below{
      static_cast<std::uint16_t>(*rc::gen::inRange(0, 0x7bff) | *rc::gen::element(0, 0x8000))};
  const float16 above{static_cast<std::uint16_t>(below.bits + 1)};
  const auto middle = static_cast<float>((value_of(below) + value_of(above)) / 2);
  const auto step = static_cast<std::uint32_t>(*rc::gen::inRange(-2, 3));
  const auto value = std::bit_cast<float>(std::bit_cast<std::uint32_t>(middle) + step);
  const float16 rounded = to_float16(value);
  const double from_below = std::fabs(value_of(below) - double{value});
  const double from_above = std::fabs(value_of(above) - double{value});
  if (from_below == from_above)
    RC_ASSERT(rounded == (below.bits % 2 == 0 ? below : above));
  else
    RC_ASSERT(rounded == (from_below < from_above ? below : above));
}

TEST(Float16, TiesOverflowAndNan) {
  EXPECT_EQ(to_float(to_float16(1.0F + 0x1p-11F)), 1.0F);            // a tie, rounded down to even
  EXPECT_EQ(to_float(to_float16(1.0F + 0x3p-11F)), 1.0F + 0x1p-9F);  // a tie, rounded up to even
  EXPECT_EQ(to_float(to_float16(65519.0F)), 65504.0F);
  EXPECT_EQ(to_float(to_float16(65520.0F)), std::numeric_limits<float>::infinity());
  EXPECT_EQ(to_float(to_float16(0x1p-25F)), 0.0F);
  EXPECT_EQ(to_float(to_float16(0x1.8p-24F)), 0x1p-23F);
  // The payload of this NaN lies in the low half.
  EXPECT_TRUE(std::isnan(to_float(to_float16(std::bit_cast<float>(0x7f800001U)))));
}

}  // namespace
