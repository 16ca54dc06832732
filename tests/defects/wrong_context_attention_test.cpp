// The attentions of wrong_context_attention.h are right without a mistake: what is caught of them is the
// mistake.

#include "tests/defects/wrong_context_attention.h"

#include <gtest/gtest.h>

#include "tests/defects/with_program.h"
#include "verify/campaign/campaign.h"
#include "verify/properties/bench.h"

namespace {

using namespace verify;
using test::WithProgram;

/// Returns the first failure of the case with this program, of all properties in all dtypes.
std::string failure_with(const WithProgram::Program& program) {
  const WithProgram without_a_mistake("cp_attention", program);
  const CampaignRequest request{.cases = {&without_a_mistake},
                                .properties = {&property_named("serial"), &property_named("agree"),
                                               &property_named("calls"), &property_named("twins")},
                                .dtypes = {sim::DType::field, sim::DType::f64, sim::DType::bf16},
                                .runs = 200,
                                .seed = 1,
                                .max_world = 8};
  std::vector<CampaignRow> rows = campaign_rows(request);
  EXPECT_FALSE(rows.empty());
  Bench bench;
  run_campaign(request, {&bench, 1}, rows, [](std::int64_t, const CampaignRow&) { return true; });
  for (const CampaignRow& row : rows)
    if (row.failure) return text_of(row.failure->setting) + ": " + row.failure->detail;
  return "";
}

TEST(WrongContextAttention, TheRingIsRightWithoutAMistake) {
  EXPECT_EQ(failure_with([](const Case&, sim::Rank& rank, const CaseSetting& s) {
              test::ring_with(test::RingMistake::none, rank, s);
            }),
            "");
}

TEST(WrongContextAttention, TheGatheredAttentionIsRightWithoutAMistake) {
  EXPECT_EQ(failure_with([](const Case&, sim::Rank& rank, const CaseSetting& s) {
              test::all_gather_with(test::GatherMistake::none, rank, s);
            }),
            "");
}

/// Otherwise the test above would pass whatever the program computes.
TEST(WrongContextAttention, AMistakeIsSeen) {
  EXPECT_NE(failure_with([](const Case&, sim::Rank& rank, const CaseSetting& s) {
              test::ring_with(test::RingMistake::lower_and_upper_exchanged, rank, s);
            }),
            "");
}

}  // namespace
