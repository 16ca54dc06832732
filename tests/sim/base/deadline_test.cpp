// Proves that a deadline never passes early, and that any duration can be set.

#include "sim/base/deadline.h"

#include <gtest/gtest.h>

namespace {

using sim::Deadline;
using namespace std::chrono_literals;

TEST(Deadline, PassesNoSoonerThanItsTime) {
  for (int i = 0; i < 5; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    const Deadline deadline = Deadline::after(2ms);
    while (!deadline.has_passed()) EXPECT_GE(deadline.remaining().count(), 0);
    EXPECT_GE(std::chrono::steady_clock::now() - begin, 2ms);
  }
}

TEST(Deadline, OfAnyLength) {
  EXPECT_TRUE(Deadline::after(0ms).has_passed());
  EXPECT_TRUE(Deadline::after(std::chrono::milliseconds::min()).has_passed());
  const Deadline far = Deadline::after(std::chrono::milliseconds::max());
  EXPECT_FALSE(far.has_passed());
  EXPECT_LT(Deadline::after(1h), far);
}

}  // namespace
