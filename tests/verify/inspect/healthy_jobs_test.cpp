// Proves whom an inspection names in a job that runs while its dumps are written, 200 snapshots of each engine:
// nobody with NCCL, and with Gloo a rank for which all others wait. A rank that stands still is named.

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

/// The recorder has no messages of Gloo, and no word of a call that has begun. Where all other ranks wait for one
/// that computes, the dumps are those of a job that hangs.
TEST(HealthyJobs, InARunningJobOfGlooARankIsNamedOnlyWhereAllOthersWaitForIt) {
  constexpr int kNamed = 7;  // measured
  int named = 0;
  for (std::uint32_t seed = 0; seed < kJobs; ++seed) {
    const std::string whom = accused(test::running_gloo_job(seed));
    named += whom.empty() ? 0 : 1;
    EXPECT_TRUE(whom.empty() || whom.find("may wait in one") != std::string::npos) << whom << "seed " << seed;
  }
  EXPECT_LE(named, kNamed);
}

}  // namespace
