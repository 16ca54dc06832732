// Proves that dumps of any bytes are read or refused with a reason: thousands of seeded inputs.
// fuzz_recordings reads millions (verify/recordings/README.md).

#include "tests/verify/recordings/mutated_dumps.h"

#include <gtest/gtest.h>

namespace {

TEST(MutatedDumps, AreInspectedOrRefusedWithAReason) {
  int read = 0;
  constexpr int kJobs = 6'000;
  for (std::uint64_t seed = 0; seed < kJobs; ++seed) {
    bool was_read = false;
    ASSERT_EQ(test::problem_of_inspecting(test::mutated_job(seed), was_read), "") << "job " << seed;
    read += was_read ? 1 : 0;
  }
  EXPECT_GT(read, kJobs / 10);  // the changes reach what comes behind the parsers
  EXPECT_LT(read, kJobs * 9 / 10);
}

}  // namespace
