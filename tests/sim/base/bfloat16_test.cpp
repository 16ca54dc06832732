// Proves that every bfloat16 survives a round trip through float, and that rounding goes to the nearest
// value, with ties to even.

#include "sim/base/bfloat16.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <rapidcheck/gtest.h>

namespace {

using sim::bfloat16;
using sim::to_bfloat16;
using sim::to_float;

TEST(Bfloat16, EveryValueSurvivesTheRoundTrip) {
  for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const bfloat16 value{static_cast<std::uint16_t>(bits)};
    const bool is_nan = std::isnan(to_float(value));
    const bfloat16 back = to_bfloat16(to_float(value));
    if (is_nan) {
      EXPECT_TRUE(std::isnan(to_float(back)));
    } else {
      EXPECT_EQ(back, value);
    }
  }
}

// The definition: no bfloat16 is nearer, and of two that are equally near the even one is taken.
RC_GTEST_PROP(Bfloat16, RoundsToTheNearestTiesToEven, ()) {
  const auto bits = *rc::gen::arbitrary<std::uint32_t>();
  const auto value = std::bit_cast<float>(bits);
  RC_PRE(std::isfinite(value) && std::fabs(value) < 0x1p127F);
  const bfloat16 rounded = to_bfloat16(value);
  const double distance = std::fabs(double{to_float(rounded)} - double{value});
  for (const int step : {-1, 1}) {
    const bfloat16 neighbour{static_cast<std::uint16_t>(rounded.bits + step)};
    const double other = std::fabs(double{to_float(neighbour)} - double{value});
    if (std::isnan(other)) continue;
    RC_ASSERT(distance <= other);
    if (distance == other && distance != 0) RC_ASSERT(rounded.bits % 2 == 0);
  }
}

TEST(Bfloat16, TiesOverflowAndNan) {
  EXPECT_EQ(to_float(to_bfloat16(1.0F + 0x1p-8F)), 1.0F);            // a tie, rounded down to even
  EXPECT_EQ(to_float(to_bfloat16(1.0F + 0x3p-8F)), 1.0F + 0x1p-6F);  // a tie, rounded up to even
  EXPECT_EQ(to_float(to_bfloat16(std::numeric_limits<float>::max())), std::numeric_limits<float>::infinity());
  // The payload of this NaN lies in the low half.
  EXPECT_TRUE(std::isnan(to_float(to_bfloat16(std::bit_cast<float>(0x7f800001U)))));
}

}  // namespace
