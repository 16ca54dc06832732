// Proves that nobody is accused in a job that runs while its dumps are written: 200 snapshots of each engine,
// and that a rank that stands still in the same jobs is named.

#include <cstdint>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <string>

#include "tests/verify/inspect/running_snapshots.h"
#include "verify/inspect/inspection.h"

namespace {

constexpr std::uint32_t kJobs = 200;

/// Returns whom an inspection accuses, with the verdict; "" where it accuses nobody.
std::string accused(verify::Recordings recordings) {
  const std::size_t ranks = recordings.ranks.size();
  const verify::Inspection inspection = verify::inspect(std::move(recordings), {}, false);
  if (inspection.suspects.empty()) return "";
  return fmt::format("{} of {} ranks: {}", fmt::join(inspection.ranks_of(), ", "), ranks, inspection.verdict);
}

TEST(HealthyJobs, NobodyIsAccusedInARunningJobOfNccl) {
  for (std::uint32_t seed = 0; seed < kJobs; ++seed)
    EXPECT_EQ(accused(test::running_nccl_job(seed)), "") << "seed " << seed;
}

TEST(HealthyJobs, NobodyIsAccusedInARunningJobOfGloo) {
  for (std::uint32_t seed = 0; seed < kJobs; ++seed)
    EXPECT_EQ(accused(test::running_gloo_job(seed)), "") << "seed " << seed;
}

}  // namespace
