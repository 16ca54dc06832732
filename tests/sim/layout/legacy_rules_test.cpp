// Proves that the legacy rules give the groups of the seeds' loops in their order, and agree with the
// current rules where both apply.

#include "sim/layout/legacy_rules.h"

#include <cstddef>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "sim/base/error.h"
#include "tests/support/enumerated_layout.h"
#include "tests/support/layout_generator.h"

namespace {

using sim::Layout;
using sim::ParallelSizes;

RC_GTEST_PROP(LegacyRules, EqualsTheSeedsLoops, ()) {
  const ParallelSizes sizes = *test::legacy_sizes();
  const Layout layout = sim::make_legacy_layout(sizes);
  const auto expected = test::enumerate_legacy(sizes);
  RC_ASSERT(layout.kinds.size() == expected->kinds.size());
  for (std::size_t k = 0; k < layout.kinds.size(); ++k) {
    RC_ASSERT(layout.kinds[k].name() == expected->kinds[k].first);
    RC_ASSERT(test::lists_of(layout.kinds[k]) == expected->kinds[k].second);
    for (int group = 0; group < layout.kinds[k].count(); ++group) {
      const auto call = static_cast<std::size_t>(layout.calls_of(static_cast<int>(k)).call_of(group));
      RC_ASSERT(expected->calls[call] == std::make_pair(layout.kinds[k].name(), group));
    }
  }
}

// With the default order and no cp, the current rules contain the legacy ones.
RC_GTEST_PROP(LegacyRules, CurrentRulesAgreeWhereBothApply, ()) {
  ParallelSizes sizes = *test::legacy_sizes();
  sizes.pipeline_model_parallel_split_rank.reset();
  const Layout legacy = sim::make_legacy_layout(sizes);
  const Layout current = sim::make_layout(sizes, sim::RuleBook::megatron);
  for (const sim::GroupKind& kind : legacy.kinds) {
    RC_ASSERT(test::lists_of(kind) == test::lists_of(*current.find(kind.name())));
  }
}

TEST(LegacyRules, SizesAreClampedEachOnItsOwn) {
  ParallelSizes sizes;
  sizes.world_size = 8;
  sizes.tensor_model_parallel_size = 16;
  const Layout layout = sim::make_legacy_layout(sizes);
  EXPECT_EQ(layout.tp, 8);
  ASSERT_EQ(layout.warnings.size(), 1U);
  EXPECT_EQ(layout.warnings[0].name, "size_clamped");

  sizes.world_size = 4;
  sizes.tensor_model_parallel_size = 8;
  sizes.pipeline_model_parallel_size = 8;  // both sizes are clamped to 4, and 4 * 4 does not divide 4
  EXPECT_THROW(sim::make_legacy_layout(sizes), sim::Error);
}

TEST(LegacyRules, NegativeSplitRankCountsFromTheEnd) {
  ParallelSizes sizes;
  sizes.world_size = 4;
  sizes.pipeline_model_parallel_size = 4;
  sizes.pipeline_model_parallel_split_rank = -3;
  const Layout layout = sim::make_legacy_layout(sizes);
  EXPECT_EQ(layout.find("embd")->members(0), (std::vector<int>{0, 1, 3}));
  EXPECT_EQ(layout.find("pos_embd")->members(0), (std::vector<int>{0, 1}));
  ASSERT_EQ(layout.warnings.size(), 1U);
  EXPECT_EQ(layout.warnings[0].name, "split_rank_negative");
}

}  // namespace
