// Proves that the checks of replay hold for every layout that the rules accept, and that each check
// finds the defects planted for it.

#include "verify/checks/layout_checks.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <utility>

#include "tests/support/layout_generator.h"

namespace {

using sim::Digit;
using sim::GroupKind;
using sim::Layout;
using sim::Listing;

std::vector<verify::CheckResult> all_checks(const Layout& layout) {
  return {verify::check_partition(layout), verify::check_orthogonal(layout),
          verify::check_products(layout),  verify::check_pipelines(layout),
          verify::check_creation(layout),  verify::check_nodes(layout, {8})};
}

RC_GTEST_PROP(LayoutChecks, HoldForEveryAcceptedLayout, ()) {
  const Layout layout = sim::make_layout(*test::accepted_megatron_sizes(), sim::RuleBook::megatron);
  for (const auto& result : all_checks(layout)) {
    if (!result.holds) RC_FAIL(result.check + ": " + result.detail);
  }
}

RC_GTEST_PROP(LayoutChecks, HoldForEveryLegacyLayout, ()) {
  const Layout layout = sim::make_layout(*test::legacy_sizes(), sim::RuleBook::legacy);
  for (const auto& result : all_checks(layout)) {
    if (!result.holds) RC_FAIL(result.check + ": " + result.detail);
  }
}

/// A correct layout of 16 ranks with tp 2, cp 2, dp 2, pp 2, and for the experts etp 2, ep 2.
Layout sound() {
  sim::ParallelSizes sizes;
  sizes.world_size = 16;
  sizes.tensor_model_parallel_size = 2;
  sizes.context_parallel_size = 2;
  sizes.pipeline_model_parallel_size = 2;
  sizes.expert_model_parallel_size = 2;
  return sim::make_layout(sizes, sim::RuleBook::megatron);
}

void replace(Layout& layout, const GroupKind& kind) {
  for (GroupKind& old : layout.kinds) {
    if (old.name() == kind.name()) old = kind;
  }
}

TEST(LayoutChecks, PartitionSeesARankThatDoesNotExist) {
  Layout layout = sound();  // as Megatron builds it from a repeated order token: strides run out of the world
  replace(layout, GroupKind("dp", Listing({{2, 8}, {2, 1}, {2, 2}, {2, 16}}, 0), 2));
  const auto result = verify::check_partition(layout);
  EXPECT_FALSE(result.holds);
  EXPECT_NE(result.detail.find("which does not exist"), std::string::npos) << result.detail;
}

TEST(LayoutChecks, PartitionSeesARankInTwoGroups) {
  Layout layout = sound();
  replace(layout, GroupKind("tp", Listing({{2, 1}, {8, 1}}, 0), 2));
  const auto result = verify::check_partition(layout);
  EXPECT_FALSE(result.holds);
  EXPECT_NE(result.detail.find("two groups"), std::string::npos) << result.detail;
}

TEST(LayoutChecks, PartitionSeesAMissingRank) {
  Layout layout = sound();
  replace(layout, GroupKind::picked("tp", *layout.find("tp"), {0}));
  const auto result = verify::check_partition(layout);
  EXPECT_FALSE(result.holds);
  EXPECT_NE(result.detail.find("in no group"), std::string::npos) << result.detail;
}

TEST(LayoutChecks, PipelinesSeeEmbeddingsOnAnotherStage) {
  Layout layout = sound();
  replace(layout, GroupKind::picked("pos_embd", *layout.find("pp"), {1}));
  const auto result = verify::check_pipelines(layout);
  EXPECT_FALSE(result.holds);
  EXPECT_EQ(result.detail, "pos_embd group 0 is [8]; its pipeline has its embeddings on [0]");
}

TEST(LayoutChecks, PipelinesSeeCoordinatesOfAnotherOrder) {
  Layout layout = sound();
  layout.order = "cp-tp-ep-dp-pp";
  const auto result = verify::check_pipelines(layout);
  EXPECT_FALSE(result.holds);
  EXPECT_EQ(result.detail,
            "rank 1 has the coordinates tp 1, cp 0, ep 0, dp 0, pp 0 in the dense grid, but the order "
            "cp-tp-ep-dp-pp gives it tp 0, cp 1, ep 0, dp 0, pp 0");
}

TEST(LayoutChecks, PipelinesSeeARankOffsetThatIsForgotten) {
  Layout layout = sound();
  layout.first_rank = 1;
  const auto result = verify::check_pipelines(layout);
  EXPECT_FALSE(result.holds);
  EXPECT_NE(result.detail.find("rank 1 has the coordinates tp 1"), std::string::npos) << result.detail;
}

TEST(LayoutChecks, OrthogonalSeesTheWrongAxis) {
  Layout layout = sound();  // dp over the cp axis is still a partition, but not orthogonal to cp
  replace(layout, GroupKind("dp", layout.dense.listing({sim::Axis::cp}), 2));
  EXPECT_TRUE(verify::check_partition(layout).holds);
  const auto result = verify::check_orthogonal(layout);
  EXPECT_FALSE(result.holds);
  EXPECT_NE(result.detail.find("share more than one rank"), std::string::npos) << result.detail;
}

TEST(LayoutChecks, OrthogonalSeesAnExpertStrideMultipliedByCp) {
  Layout layout = sound();  // this is the published bug of an ep group strided by cp
  replace(layout, GroupKind("ep", Listing({{2, 4}, {2, 1}, {2, 2}, {2, 8}}, 0), 2));
  EXPECT_FALSE(verify::check_orthogonal(layout).holds);
}

TEST(LayoutChecks, ProductsSeeAGroupWithoutContextParallel) {
  Layout layout = sound();  // with dp in place of dp-cp, gradients of cp ranks would not be summed
  replace(layout, GroupKind("dp-cp", layout.dense.listing({sim::Axis::dp}), 2));
  const auto result = verify::check_products(layout);
  EXPECT_FALSE(result.holds);
  EXPECT_NE(result.detail.find("not 16 ranks"), std::string::npos) << result.detail;
}

TEST(LayoutChecks, ProductsSeeTheRightSizeOnTheWrongAxes) {
  Layout layout = sound();
  replace(layout, GroupKind("mp", layout.dense.listing({sim::Axis::cp, sim::Axis::pp}), 4));
  EXPECT_FALSE(verify::check_products(layout).holds);
}

/// Two optimizer instances on two stages: a layout of 16 ranks with tp 2, dp 4, pp 2.
Layout with_instances() {
  sim::ParallelSizes sizes;
  sizes.world_size = 16;
  sizes.tensor_model_parallel_size = 2;
  sizes.pipeline_model_parallel_size = 2;
  sizes.num_distributed_optimizer_instances = 2;
  return sim::make_layout(sizes, sim::RuleBook::megatron);
}

TEST(LayoutChecks, ProductsSeeAnInstanceThatIsAStage) {
  Layout layout = with_instances();
  for (const auto& result : all_checks(layout)) EXPECT_TRUE(result.holds) << result.detail;
  replace(layout, GroupKind("intra-dist-opt", Listing({{2, 1}, {4, 2}, {2, 8}}, 0), 8));
  EXPECT_TRUE(verify::check_partition(layout).holds);
  const auto result = verify::check_products(layout);
  EXPECT_FALSE(result.holds);
  EXPECT_NE(result.detail.find("share more than one rank"), std::string::npos) << result.detail;
}

TEST(LayoutChecks, OrthogonalSeesAnInstanceThatDividesAModel) {
  Layout layout = with_instances();  // every second replica, in place of neighbours
  replace(layout, GroupKind("intra-dist-opt", Listing({{2, 1}, {2, 4}, {2, 8}, {2, 2}}, 0), 8));
  EXPECT_TRUE(verify::check_partition(layout).holds);
  const auto result = verify::check_orthogonal(layout);
  EXPECT_FALSE(result.holds);
  EXPECT_NE(result.detail.find("does not lie in one group of intra-dist-opt"), std::string::npos)
      << result.detail;
}

TEST(LayoutChecks, PartitionSeesARankTwiceInAnyKindOfPairs) {
  const Layout sound = with_instances();
  for (const GroupKind& kind : sound.kinds) {
    if (kind.size() != 2 || kind.count() * 2 != sound.grid_size) continue;
    Layout layout = sound;
    replace(layout, GroupKind(kind.name(), Listing({{2, 1}, {8, 1}}, 0), 2));
    EXPECT_FALSE(verify::check_partition(layout).holds) << kind.name();
  }
}

TEST(LayoutChecks, PipelinesSeeMixedReplicas) {
  Layout layout = sound();  // stage 1 of one replica follows stage 0 of the other
  replace(layout, GroupKind("pp", Listing({{2, 12}, {2, 1}, {2, 2}, {2, 4}}, 0), 2));
  EXPECT_FALSE(verify::check_pipelines(layout).holds);
}

TEST(LayoutChecks, PipelinesSeeAnExpertGridThatDiffers) {
  Layout layout = sound();
  layout.expert = sim::RankGrid({sim::Axis::tp, sim::Axis::cp, sim::Axis::ep, sim::Axis::pp, sim::Axis::dp},
                                {{2, 1, 2, 2, 2}}, 0);
  const auto result = verify::check_pipelines(layout);
  EXPECT_FALSE(result.holds);
  EXPECT_NE(result.detail.find("expert grid"), std::string::npos) << result.detail;
}

TEST(LayoutChecks, CreationSeesAGroupThatIsNotEnteredByItsMembers) {
  Layout layout = sound();  // lists and ranks disagree, because the digits do not tell ranks apart
  replace(layout, GroupKind("tp", Listing({{2, 1}, {8, 1}}, 0), 2));
  EXPECT_FALSE(verify::check_creation(layout).holds);
}

TEST(LayoutChecks, CreationSeesTwoGroupsInOneCall) {
  Layout layout = sound();
  // Harmless: the order differs, but every group is still created once.
  std::swap(layout.creation[0].kinds, layout.creation.back().kinds);
  EXPECT_TRUE(verify::check_creation(layout).holds);
  layout.creation[0].kinds.push_back(
      layout.creation[1].kinds[0]);  // a kind is created twice, so calls would collide
  EXPECT_FALSE(verify::check_creation(layout).holds);
}

TEST(LayoutChecks, NodesSeeListsAndRanksThatDisagree) {
  Layout layout = sound();
  replace(layout, GroupKind("tp", Listing({{2, 8}, {8, 8}}, 0), 2));
  EXPECT_FALSE(verify::check_nodes(layout, {8}).holds);
}

TEST(LayoutChecks, ExpectedGroupsSeeOrderAndMembers) {
  const Layout layout = sound();
  std::vector<std::vector<int>> lists;
  for (int group = 0; group < layout.find("pp")->count(); ++group)
    lists.push_back(layout.find("pp")->members(group));
  EXPECT_TRUE(verify::check_expected_groups(layout, "pp", lists).holds);
  std::swap(lists[0], lists[1]);
  EXPECT_FALSE(verify::check_expected_groups(layout, "pp", lists).holds);
  std::swap(lists[0], lists[1]);
  lists.pop_back();
  EXPECT_FALSE(verify::check_expected_groups(layout, "pp", lists).holds);
  lists.push_back({0, 1});
  EXPECT_FALSE(verify::check_expected_groups(layout, "pp", lists).holds);
  EXPECT_FALSE(verify::check_expected_groups(layout, "gtp", lists).holds);
}

}  // namespace
