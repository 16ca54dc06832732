#include "sim/base/check.h"

#include <gtest/gtest.h>

namespace {

// In every build type, optimised ones included: tests run in one.
TEST(CheckDeathTest, BrokenInvariantPrintsWhereAndAborts) {
  EXPECT_DEATH(CHECK(1 + 1 == 3),
               "bug in shardproof: CHECK\\(1 \\+ 1 == 3\\) failed at .*check_test.cpp:[0-9]+");
}

TEST(CheckDeathTest, HoldingInvariantIsSilent) { CHECK(1 + 1 == 2); }

}  // namespace
