// Proves what is said of dumps that PyTorch's own recorder wrote of small jobs over gloo
// (tests/torch/record_gloo.py).

#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "verify/inspect/inspection.h"

namespace {

verify::Inspection inspected_gloo_job(const std::string& job) {
  const std::string folder = std::string(SHARDPROOF_SOURCE_DIR) + "/tests/verify/inspect/gloo/" + job;
  return verify::inspect(verify::read_recordings({{folder}, "", 2}), {}, false);
}

std::vector<int> suspected_ranks(const verify::Inspection& inspection) {
  std::vector<int> ranks;
  for (const verify::Suspect& suspect : inspection.suspects) ranks.push_back(suspect.rank);
  return ranks;
}

TEST(GlooRecordings, OfAMatchedJobHaveNothingToFind) {
  const verify::Inspection inspection = inspected_gloo_job("matched");
  EXPECT_FALSE(inspection.has_findings()) << inspection.verdict;
  EXPECT_EQ(inspection.job.world_size, 4);
}

TEST(GlooRecordings, NameTheRankThatStops) {
  const verify::Inspection inspection = inspected_gloo_job("stopped");
  EXPECT_EQ(suspected_ranks(inspection), std::vector<int>{2}) << inspection.verdict;
  EXPECT_EQ(inspection.suspects.at(0).kind, verify::SuspectKind::host);
  const std::string doubt = "But the recorder has no sends and receives of Gloo: rank 2 may wait in one.";
  EXPECT_NE(inspection.verdict.find(doubt), std::string::npos) << inspection.verdict;
}

TEST(GlooRecordings, NameTheRanksOfACircle) {
  const verify::Inspection inspection = inspected_gloo_job("crossed");
  EXPECT_EQ(suspected_ranks(inspection), (std::vector<int>{0, 1})) << inspection.verdict;
  EXPECT_EQ(inspection.suspects.at(0).kind, verify::SuspectKind::order);
}

TEST(GlooRecordings, NameTheRankWithAnotherSize) {
  const verify::Inspection inspection = inspected_gloo_job("size_mismatch");
  EXPECT_EQ(suspected_ranks(inspection), std::vector<int>{1}) << inspection.verdict;
  EXPECT_EQ(inspection.suspects.at(0).kind, verify::SuspectKind::order);
}

}  // namespace
