// Proves that dumps of any bytes are read or refused with a reason: thousands of seeded inputs.
// fuzz_recordings reads millions (verify/recordings/README.md).

#include "tests/verify/recordings/mutated_dumps.h"

#include <gtest/gtest.h>

namespace {

TEST(MutatedDumps, AreInspectedOrRefusedWithAReason) {
  int read = 0;
  constexpr int kDumps = 6'000;
  for (std::uint64_t seed = 0; seed < kDumps; ++seed) {
    bool was_read = false;
    ASSERT_EQ(test::problem_of_inspecting(test::mutated_dump(seed), was_read), "") << "dump " << seed;
    read += was_read ? 1 : 0;
  }
  EXPECT_GT(read, kDumps / 10);  // the changes reach what comes behind the parsers
  EXPECT_LT(read, kDumps * 9 / 10);
}

}  // namespace
