// Proves that a failing setting shrinks until no single step from it fails.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "verify/campaign/campaign_work.h"
#include "verify/cases/case_list.h"
#include "verify/cases/gpt_plan.h"

namespace {

using namespace verify;

const Case& training() { return *find_case("gpt_training"); }

/// Eight ranks, with every dimension at its most.
CaseSetting largest(const Case& the_case) {
  CaseSetting setting{.group_size = 8, .replicas = 1, .ranks = the_case.ranks()};
  for (const Dimension& d : the_case.dimensions()) setting.dimensions[d.name] = d.most;
  return setting;
}

TEST(Shrinking, EndsAtTheLeastWhereEverythingFails) {
  CaseSetting setting = largest(*find_case("mlp"));
  setting.replicas = 2;
  const CaseSetting small = shrunk(*find_case("mlp"), setting, [](const CaseSetting&) { return true; });
  EXPECT_EQ(small.group_size, 1);
  EXPECT_EQ(small.replicas, 1);
  for (const Dimension& d : find_case("mlp")->dimensions()) EXPECT_EQ(small[d.name], d.least);
}

TEST(Shrinking, KeepsWhatTheFailureNeedsAndNothingElse) {
  const auto fails = [](const CaseSetting& s) {
    return s.group_size % 3 == 0 && s.replicas == 2 && s["tokens"] >= 2 && s["gated"] == 1;
  };
  CaseSetting setting = largest(*find_case("mlp"));
  setting.group_size = 6;
  setting.replicas = 2;
  setting.seed = 12;
  const CaseSetting small = shrunk(*find_case("mlp"), setting, fails);
  EXPECT_EQ(text_of(small),
            "tp 3, field, seed 12, replicas 2, activation 0, bias 0, ffn 1, gated 1, hidden 1, "
            "sequence_parallel 0, tokens 2");
}

TEST(Shrinking, AWorldShrinksThroughItsAxes) {
  CaseSetting setting = largest(training());
  setting.dimensions["tp"] = setting.dimensions["pp"] = 2;
  const auto ranks_with = [&](const auto& fails) {
    return shrunk(training(), setting, [&](const CaseSetting& s) { return fails(GptPlan{s}); }).group_size;
  };
  EXPECT_EQ(ranks_with([](const GptPlan& plan) { return plan.tp() > 1; }), 2);
  EXPECT_EQ(ranks_with([](const GptPlan& plan) { return plan.pp() > 1; }), 2);
  EXPECT_EQ(ranks_with([](const GptPlan& plan) { return plan.dp() > 1; }), 2);
  EXPECT_EQ(ranks_with([](const GptPlan& plan) { return plan.tp() > 1 && plan.dp() > 1; }), 4);
  EXPECT_EQ(ranks_with([](const GptPlan& plan) { return plan.pp() > 1 && plan.dp() > 1; }), 4);
  EXPECT_EQ(ranks_with([](const GptPlan& plan) { return plan.tp() * plan.pp() * plan.dp() == 8; }), 8);
}

/// A failure that needs some dimensions above some numbers, or even.
RC_GTEST_PROP(Shrinking, NoSingleStepFails, ()) {
  const auto& cases = all_cases();
  const Case& the_case = *cases[*rc::gen::inRange<std::size_t>(0, cases.size())];
  const int ranks = *rc::gen::inRange(1, 9);
  const bool is_even = *rc::gen::arbitrary<bool>();
  Dimensions needs;
  for (const Dimension& d : the_case.dimensions())
    needs[d.name] = std::min(d.most, d.least + *rc::gen::inRange<std::int64_t>(0, 5));
  const auto fails = [&](const CaseSetting& s) {
    bool all = s.group_size >= ranks;
    for (const auto& [name, least] : needs)
      all = all && s[name] >= least && (!is_even || s[name] != least + 1);
    return all;
  };
  const CaseSetting start = largest(the_case);
  if (!fails(start)) return;
  const CaseSetting small = shrunk(the_case, start, fails);
  RC_ASSERT(fails(small));
  RC_ASSERT(small.group_size == ranks);
  RC_ASSERT(small.dimensions == needs);
}

}  // namespace
