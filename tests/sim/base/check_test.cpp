// Proves that a SIM_CHECK that fails prints where it stands and aborts, and that a SIM_CHECK that holds is silent.

#include "sim/base/check.h"

#include <gtest/gtest.h>

namespace {

// SIM_CHECK is active in every build type, including optimised ones.
TEST(CheckDeathTest, BrokenInvariantPrintsWhereAndAborts) {
  EXPECT_DEATH(SIM_CHECK(1 + 1 == 3),
               "bug in shardproof: SIM_CHECK\\(1 \\+ 1 == 3\\) failed at .*check_test.cpp:[0-9]+");
}

TEST(CheckDeathTest, HoldingInvariantIsSilent) { SIM_CHECK(1 + 1 == 2); }

}  // namespace
