// Proves that a CHECK that fails prints where it stands and aborts, and that a CHECK that holds is silent.

#include "sim/base/check.h"

#include <gtest/gtest.h>

namespace {

// CHECK is active in every build type, including optimised ones.
TEST(CheckDeathTest, BrokenInvariantPrintsWhereAndAborts) {
  EXPECT_DEATH(CHECK(1 + 1 == 3),
               "bug in shardproof: CHECK\\(1 \\+ 1 == 3\\) failed at .*check_test.cpp:[0-9]+");
}

TEST(CheckDeathTest, HoldingInvariantIsSilent) { CHECK(1 + 1 == 2); }

}  // namespace
