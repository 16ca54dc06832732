// Proves that shrinking ends at the smallest world: planted defects, which campaigns find in worlds of up to
// eight ranks, with the fewest ranks on which each of them shows.

#include <gtest/gtest.h>
#include <iterator>
#include <optional>
#include <string>

#include "tests/defects/catalogue.h"
#include "verify/campaign/campaign.h"

namespace {

using namespace verify;
using test::Defect;

struct SmallestWorld {
  const char* defect;
  int ranks;
};

constexpr SmallestWorld kSmallestWorlds[] = {
    // A collective of a layer shows between two ranks.
    {"row: forward sum left out", 2},
    {"row: sum over half of the group", 2},
    {"row: last rank's term missing", 2},
    {"row: one rank does not call", 2},
    {"row: sequence gradient not gathered", 2},
    {"column: input gradient averaged", 2},
    {"column: tokens gathered in another order", 2},
    {"layer: sum of the layer before", 2},
    {"layer: weight gradient from stale input", 2},
    {"embedding: sum left out", 2},
    {"loss: local maximum, not rescaled", 2},
    {"norm: gradient summed twice", 2},
    {"attention: shared groups not reduced", 2},
    {"all_to_all: nothing exchanged", 2},
    {"experts: outputs not summed", 2},
    {"experts: one rank does not dispatch", 2},
    {"context: tokens cut in one piece", 2},
    {"context: second half goes on from the first", 2},
    {"context: positions of the row for the document's", 1},
    // A kernel that is wrong everywhere shows on one rank, though it may need two tokens there.
    {"row: a little added on all ranks", 1},
    {"mlp: activation doubled on one rank", 2},
    {"mlp: activation doubled on all ranks", 1},
    {"column: weight gradient added twice", 1},
    {"attention: gradient not turned back", 1},
    {"attention: causal mask dropped", 1},
    {"attention: scores not scaled", 1},
    {"attention: two heads exchanged", 1},
    {"embedding: vocabulary range off by one", 2},
    {"loss: padded vocabulary counted", 1},
    {"tied weight: gradient of one use only", 1},
    {"mlp: gate and up exchanged", 1},
    {"dropout: streams of ranks in a replicated one", 2},
    // A training of data-parallel ranks.
    {"training: gradients not reduced", 2},
    {"training: parameters not gathered", 2},
    {"training: one rank does not clip", 2},
    {"training: moments forgotten", 1},
    {"instances: not summed across", 2},
    {"experts: reduced as dense parameters", 2},
    {"checkpoint: weights active after a step", 1},
    {"checkpoint: slices off by one", 1},
    // A whole step, in tp, pp and dp.
    {"step: tie lost", 2},
    {"step: norm of one stage, plain", 2},
    {"step: norm gradients of each rank's tokens", 2},
    {"step: tokens not told to other stages", 2},
    {"step: activations of the microbatch before", 2},
    {"step: every replica sees the same samples", 2},
    {"step: labels not shifted", 1},
    {"step: chunks in the order of ranks", 2},
    {"step: nothing overlaps", 4},
};

std::optional<Failure> failure_of(const Defect& defect, std::uint64_t seed, int max_world) {
  const CampaignRequest request{.cases = {defect.the_case.get()},
                                .properties = {&property_named(defect.property)},
                                .dtypes = {sim::DType::field},
                                .runs = 200,
                                .seed = seed,
                                .max_world = max_world};
  std::vector<CampaignRow> rows = campaign_rows(request);
  Bench bench = defect.bench();
  run_campaign(request, {&bench, 1}, rows, [](std::int64_t, const CampaignRow&) { return true; });
  return rows.front().failure;
}

class SmallestWorlds : public testing::TestWithParam<SmallestWorld> {};

TEST_P(SmallestWorlds, IsWhereShrinkingEnds) {
  const Defect& defect = test::defect_named(GetParam().defect);
  const auto failure = failure_of(defect, 2, 8);
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(failure->setting.group_size * failure->setting.replicas, GetParam().ranks)
      << text_of(failure->setting);
  if (GetParam().ranks == 1) return;
  const auto of_fewer = failure_of(defect, 3, GetParam().ranks - 1);
  EXPECT_FALSE(of_fewer.has_value()) << text_of(of_fewer->setting);
}

INSTANTIATE_TEST_SUITE_P(All, SmallestWorlds, testing::ValuesIn(kSmallestWorlds),
                         [](const auto& row) { return "defect_" + std::to_string(row.index); });

static_assert(std::size(kSmallestWorlds) >= 30);

}  // namespace
