// Proves how a shape counts its elements, and that impossible shapes and shapes larger than memory are
// refused.

#include "sim/tensor/shape.h"

#include <cstdint>
#include <gtest/gtest.h>
#include <limits>

#include "tests/support/refusal_code.h"

namespace {

using sim::Shape;
using test::refusal_code;

constexpr std::int64_t kMost = std::int64_t{1} << 42;

TEST(Shape, CountsItsElements) {
  const Shape shape = {2, 3, 5};
  EXPECT_EQ(shape.dimensions(), 3U);
  EXPECT_EQ(shape[2], 5);
  EXPECT_EQ(shape[3], 1);
  EXPECT_EQ(shape[9], 1);
  EXPECT_EQ(shape.count(), 30);
  EXPECT_EQ(shape.row_count(), 15);
  EXPECT_EQ(shape.with_rows(7), (Shape{7, 3, 5}));
  EXPECT_EQ(text_of(shape), "[2, 3, 5]");
  EXPECT_EQ(Shape().count(), 1);
  EXPECT_EQ(text_of(Shape()), "[]");
  EXPECT_EQ((Shape{0, 3}).count(), 0);
  EXPECT_FALSE((Shape{3}) == (Shape{3, 1}));
}

TEST(Shape, RefusesWhatIsNone) {
  EXPECT_EQ(refusal_code([] { Shape{-1}; }), "bad_shape");
  EXPECT_EQ(refusal_code([] { Shape{2, 2, 2, 2, 2}; }), "bad_shape");
  EXPECT_EQ(refusal_code([] { Shape{4, std::numeric_limits<std::int64_t>::min()}; }), "bad_shape");
}

TEST(Shape, RefusesMoreThanMemoryHolds) {
  EXPECT_EQ((Shape{kMost / 8, 8}).count(), kMost);
  EXPECT_EQ(refusal_code([] { Shape{kMost + 1}; }), "bad_shape");
  EXPECT_EQ(refusal_code([] { Shape{kMost / 8, 9}; }), "bad_shape");
  EXPECT_EQ(refusal_code([] { Shape{kMost, kMost}; }), "bad_shape");  // 2^84 is 0 in 64 bits
  EXPECT_EQ(refusal_code([] { Shape{0, kMost, kMost}; }), "bad_shape");
  EXPECT_EQ(refusal_code([] { Shape{std::numeric_limits<std::int64_t>::max()}; }), "bad_shape");
  const Shape tall = {0, kMost};
  EXPECT_EQ(refusal_code([&] { tall.with_rows(2); }), "bad_shape");
  EXPECT_EQ(refusal_code([&] { tall.with_rows(-1); }), "bad_shape");
}

TEST(ShapeDeathTest, AScalarHasNoRows) { EXPECT_DEATH(Shape().with_rows(1), "CHECK"); }

}  // namespace
