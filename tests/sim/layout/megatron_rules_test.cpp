// Proves that the closed form of Megatron's groups equals its definition by enumeration, and that
// layouts which one of Megatron's own consumers gets wrong are warned about.

#include "sim/layout/megatron_rules.h"

#include <algorithm>
#include <cstddef>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <set>

#include "sim/base/error.h"
#include "sim/base/refusals.h"
#include "sim/layout/kind_table.h"
#include "tests/support/enumerated_layout.h"
#include "tests/support/layout_generator.h"

namespace {

using sim::GroupKind;
using sim::Layout;
using sim::ParallelSizes;
using sim::RuleBook;

std::optional<Layout> try_layout(const ParallelSizes& sizes) {
  try {
    return sim::make_layout(sizes, RuleBook::megatron);
  } catch (const sim::Error&) {
    return std::nullopt;
  }
}

// The central law: the closed form and the definition give the same groups in the same order, or both refuse.
RC_GTEST_PROP(MegatronRules, EqualsTheDefinition, ()) {
  const ParallelSizes sizes = *test::megatron_sizes();
  const auto layout = try_layout(sizes);
  const auto expected = test::enumerate_megatron(sizes);
  RC_ASSERT(layout.has_value() == expected.has_value());
  RC_CLASSIFY(!layout, "refused");
  if (!layout) return;
  RC_CLASSIFY(layout->instances > 1, "several optimizer instances");
  RC_ASSERT(layout->dp == expected->dp && layout->etp == expected->etp && layout->edp == expected->edp);
  RC_ASSERT(layout->kinds.size() == expected->kinds.size());
  for (std::size_t k = 0; k < layout->kinds.size(); ++k) {
    RC_ASSERT(layout->kinds[k].name() == expected->kinds[k].first);
    RC_ASSERT(test::lists_of(layout->kinds[k]) == expected->kinds[k].second);
  }
}

// What a dump says of a group, as Megatron describes it, leads back to the kind.
RC_GTEST_PROP(MegatronRules, DescriptionsLeadBackToTheirKinds, ()) {
  const Layout layout = sim::make_layout(*test::accepted_megatron_sizes(), RuleBook::megatron);
  for (const GroupKind& kind : layout.kinds) {
    const sim::KindRow* row = sim::find_kind(kind.name());
    RC_ASSERT(row != nullptr);
    RC_ASSERT(sim::kind_described_as(row->description_of(kind.name())) == kind.name());
  }
}

RC_GTEST_PROP(MegatronRules, CallsComeInCreationOrder, ()) {
  const ParallelSizes sizes = *test::accepted_megatron_sizes();
  const Layout layout = sim::make_layout(sizes, RuleBook::megatron);
  const auto expected = test::enumerate_megatron(sizes);
  RC_ASSERT(static_cast<std::size_t>(layout.call_count()) == expected->calls.size());
  std::vector<std::pair<std::string, int>> calls(expected->calls.size());
  for (std::size_t k = 0; k < layout.kinds.size(); ++k) {
    for (int group = 0; group < layout.kinds[k].count(); ++group) {
      calls[static_cast<std::size_t>(layout.calls_of(static_cast<int>(k)).call_of(group))] = {
          layout.kinds[k].name(), group};
    }
  }
  RC_ASSERT(calls == expected->calls);
}

RC_GTEST_PROP(MegatronRules, RankAndGroupAreInverse, ()) {
  const Layout layout = sim::make_layout(*test::accepted_megatron_sizes(), RuleBook::megatron);
  for (const GroupKind& kind : layout.kinds) {
    std::size_t members_seen = 0;
    kind.for_each_group([&](int group, std::span<const int> members) {
      RC_ASSERT(kind.members(group) == std::vector<int>(members.begin(), members.end()));
      for (std::size_t i = 0; i < members.size(); ++i) {
        RC_ASSERT(kind.place_of(members[i]) == (GroupKind::Place{group, static_cast<int>(i)}));
      }
      members_seen += members.size();
    });
    std::size_t ranks_placed = 0;
    for (int i = 0; i < layout.grid_size; ++i) {
      if (kind.place_of(layout.first_rank + i)) ++ranks_placed;
    }
    RC_ASSERT(ranks_placed == members_seen);
    RC_ASSERT(!kind.place_of(layout.first_rank - 1) && !kind.place_of(layout.first_rank + layout.grid_size));
  }
}

RC_GTEST_PROP(MegatronRules, CoordinatesAndRankAreInverse, ()) {
  const Layout layout = sim::make_layout(*test::accepted_megatron_sizes(), RuleBook::megatron);
  for (int i = 0; i < layout.grid_size; ++i) {
    const int rank = layout.first_rank + i;
    RC_ASSERT(layout.dense.rank_of(layout.dense.coordinates_of(rank)) == rank);
    RC_ASSERT(layout.expert.rank_of(layout.expert.coordinates_of(rank)) == rank);
  }
}

// Members ascend in every kind but intra-dist-opt, which is a concatenation. PyTorch would sort its
// members too, so that the rank in the group follows the global rank.
RC_GTEST_PROP(MegatronRules, MembersAscend, ()) {
  const Layout layout = sim::make_layout(*test::accepted_megatron_sizes(), RuleBook::megatron);
  for (const GroupKind& kind : layout.kinds) {
    if (kind.name() == "intra-dist-opt") continue;
    kind.for_each_group([&](int, std::span<const int> members) {
      RC_ASSERT(std::adjacent_find(members.begin(), members.end(), std::greater_equal<>()) == members.end());
    });
  }
}

std::set<std::string> warning_names(const Layout& layout) {
  std::set<std::string> names;
  for (const sim::Warning& warning : layout.warnings) names.insert(warning.name);
  return names;
}

// The inter-instance group of a rank is the set of ranks that hold the same dense shard, or there is a
// warning.
RC_GTEST_PROP(MegatronRules, InterInstanceGroupHoldsOneShardOrWarns, ()) {
  const ParallelSizes sizes = *test::accepted_megatron_sizes();
  const auto lists = test::enumerate_megatron(sizes);
  const bool warned =
      warning_names(sim::make_layout(sizes, RuleBook::megatron)).contains("inter_instance_group");
  if (sizes.num_distributed_optimizer_instances == 1) {
    RC_ASSERT(!warned);
    return;
  }
  std::set<std::set<int>> same_shard;  // holders of position i in every slice of a dp-cp group
  const auto instances = static_cast<std::size_t>(sizes.num_distributed_optimizer_instances);
  for (const auto& list : (*lists)["dp-cp"]) {
    const std::size_t slice = list.size() / instances;
    for (std::size_t i = 0; i < slice; ++i) {
      std::set<int> holders;
      for (std::size_t s = 0; s < instances; ++s) holders.insert(list[s * slice + i]);
      same_shard.insert(holders);
    }
  }
  std::set<std::set<int>> reduced_over;
  for (const auto& list : (*lists)["inter-edp"]) reduced_over.emplace(list.begin(), list.end());
  RC_CLASSIFY(warned, "warned");
  RC_ASSERT(warned == (same_shard != reduced_over));
}

// The group intra-dist-opt is a union of intra-dp-cp groups, or there is a warning.
RC_GTEST_PROP(MegatronRules, InstanceCoversItsReplicasOrWarns, ()) {
  const ParallelSizes sizes = *test::accepted_megatron_sizes();
  RC_PRE(sizes.num_distributed_optimizer_instances > 1);
  const auto lists = test::enumerate_megatron(sizes);
  std::map<int, std::size_t> instance_of;
  const test::Lists& instances = (*lists)["intra-dist-opt"];
  for (std::size_t i = 0; i < instances.size(); ++i) {
    for (const int rank : instances[i]) instance_of[rank] = i;
  }
  bool covered = true;
  for (const auto& replicas : (*lists)["intra-dp-cp"]) {
    for (const int rank : replicas) covered = covered && instance_of[rank] == instance_of[replicas[0]];
  }
  // The expert replicas of a rank lie in one instance, for every order.
  for (const auto& replicas : (*lists)["intra-edp"]) {
    for (const int rank : replicas) RC_ASSERT(instance_of[rank] == instance_of[replicas[0]]);
  }
  RC_ASSERT(warning_names(sim::make_layout(sizes, RuleBook::megatron)).contains("instance_coverage") ==
            !covered);
}

// In the tp-ep list etp varies fastest, or there is a warning.
RC_GTEST_PROP(MegatronRules, DispatcherReadsEtpFastestOrWarns, ()) {
  const ParallelSizes sizes = *test::accepted_megatron_sizes();
  const Layout layout = sim::make_layout(sizes, RuleBook::megatron);
  bool etp_fastest = true;
  const auto lists = test::enumerate_megatron(sizes);
  const test::Lists& etp = (*lists)["etp"];
  for (const auto& list : (*lists)["tp-ep"]) {
    const std::vector<int> first(list.begin(), list.begin() + layout.etp);
    etp_fastest = etp_fastest && std::find(etp.begin(), etp.end(), first) != etp.end();
  }
  RC_ASSERT(warning_names(layout).contains("dispatcher_order") == !etp_fastest);
}

// Whatever the sizes, these orders never give the warning inter_instance_group.
/// Returns the codes of all refusals of a layout, with the options that they name.
std::vector<std::string> refusals_of(const ParallelSizes& sizes, RuleBook rules = RuleBook::megatron) {
  std::vector<std::string> all;
  try {
    sim::make_layout(sizes, rules);
  } catch (const sim::Error& error) {
    all.push_back(error.refusal().code + " " + error.refusal().option);
    for (const sim::Refusal& refusal : sim::further_refusals(error))
      all.push_back(refusal.code + " " + refusal.option);
  }
  return all;
}

RC_GTEST_PROP(MegatronRules, EverySizeThatIsOutOfRangeIsNamed, ()) {
  struct Size {
    const char* option;
    void (*set)(ParallelSizes& sizes, std::int64_t size);
  };
  constexpr Size kSizes[] = {
      {"--world-size", [](auto& sizes, auto size) { sizes.world_size = size; }},
      {"--tensor-model-parallel-size",
       [](auto& sizes, auto size) { sizes.tensor_model_parallel_size = size; }},
      {"--pipeline-model-parallel-size",
       [](auto& sizes, auto size) { sizes.pipeline_model_parallel_size = size; }},
      {"--context-parallel-size", [](auto& sizes, auto size) { sizes.context_parallel_size = size; }},
      {"--expert-model-parallel-size",
       [](auto& sizes, auto size) { sizes.expert_model_parallel_size = size; }},
      {"--num-distributed-optimizer-instances",
       [](auto& sizes, auto size) { sizes.num_distributed_optimizer_instances = size; }},
      {"--virtual-pipeline-model-parallel-size",
       [](auto& sizes, auto size) { sizes.virtual_pipeline_model_parallel_size = size; }},
      {"--expert-tensor-parallel-size",
       [](auto& sizes, auto size) { sizes.expert_tensor_parallel_size = size; }},
      {"--hierarchical-context-parallel-sizes",
       [](auto& sizes, auto size) { sizes.hierarchical_context_parallel_sizes = {size}; }},
      {"--local-world-size", [](auto& sizes, auto size) { sizes.local_world_size = size; }},
  };
  ParallelSizes sizes{.world_size = 8};
  std::vector<std::string> expected;
  for (const Size& size : kSizes) {
    if (*rc::gen::inRange(0, 3) != 0) continue;
    size.set(sizes, *rc::gen::element<std::int64_t>(0, -1, sim::kMaxSize + 1));
    expected.push_back(std::string("size_range ") + size.option);
  }
  RC_PRE(!expected.empty());
  RC_ASSERT(refusals_of(sizes) == expected);
}

TEST(MegatronRules, AllRefusalsOfALayoutAreToldTogether) {
  using Texts = std::vector<std::string>;
  EXPECT_EQ(refusals_of({.world_size = 12,
                         .tensor_model_parallel_size = 5,
                         .expert_model_parallel_size = 7,
                         .hierarchical_context_parallel_sizes = {2}}),
            (Texts{"dense_div --world-size", "expert_div --expert-model-parallel-size",
                   "hcp_prod --hierarchical-context-parallel-sizes"}));
  // What nobody asked for is not refused a second time.
  EXPECT_EQ(refusals_of({.world_size = 9, .tensor_model_parallel_size = 2}), Texts{"dense_div --world-size"});
  EXPECT_EQ(refusals_of({.world_size = 8, .tensor_model_parallel_size = 0, .context_parallel_size = 0}),
            (Texts{"size_range --tensor-model-parallel-size", "size_range --context-parallel-size"}));
  EXPECT_EQ(refusals_of({.world_size = 8, .num_distributed_optimizer_instances = 3, .order = "dp-pp"}),
            (Texts{"ndoi_dense --num-distributed-optimizer-instances", "order_no_tp --order",
                   "ndoi_expert --num-distributed-optimizer-instances"}));
  EXPECT_EQ(refusals_of({.world_size = 8, .context_parallel_size = 2, .expert_model_parallel_size = 2},
                        RuleBook::legacy),
            (Texts{"legacy_has_no_axis --context-parallel-size",
                   "legacy_has_no_axis --expert-model-parallel-size"}));
}

TEST(MegatronRules, SafeOrdersNeverWarn) {
  rc::check("safe orders never warn about instances", [] {
    ParallelSizes sizes = *test::accepted_megatron_sizes();
    sizes.order = *rc::gen::element<std::string>("tp-cp-ep-dp-pp", "tp-ep-cp-dp-pp", "ep-tp-cp-dp-pp");
    const auto layout = try_layout(sizes);
    RC_PRE(layout.has_value());
    RC_ASSERT(!warning_names(*layout).contains("inter_instance_group"));
  });
}

// Two known traps in small worlds. With ep fastest, the token dispatcher misreads the tp-ep group. With
// dp before tp and etp 1, an inter-edp group joins ranks that hold different dense shards.
TEST(MegatronRules, KnownTrapsWarn) {
  ParallelSizes sizes;
  sizes.world_size = 8;
  sizes.expert_tensor_parallel_size = 2;
  sizes.expert_model_parallel_size = 2;
  sizes.order = "ep-tp-cp-dp-pp";
  EXPECT_EQ(warning_names(sim::make_layout(sizes, RuleBook::megatron)),
            std::set<std::string>{"dispatcher_order"});

  ParallelSizes instances;
  instances.world_size = 8;
  instances.tensor_model_parallel_size = 2;
  instances.num_distributed_optimizer_instances = 2;
  instances.expert_tensor_parallel_size = 1;
  instances.order = "cp-dp-tp-ep-pp";
  EXPECT_TRUE(
      warning_names(sim::make_layout(instances, RuleBook::megatron)).contains("inter_instance_group"));
}

// A planted defect (tp and dp mixed up) must be found, and must shrink to the smallest world that shows it.
TEST(MegatronRules, PlantedDefectShrinksToTheSmallestWorld) {
  ParallelSizes smallest;
  const auto defect_unseen = [&] {
    const ParallelSizes sizes = *test::accepted_megatron_sizes();
    const Layout layout = sim::make_layout(sizes, RuleBook::megatron);
    const GroupKind swapped("tp", layout.dense.listing({sim::Axis::dp}), layout.dp);
    const bool same = test::lists_of(swapped) == test::lists_of(*layout.find("tp"));
    if (!same) smallest = sizes;
    RC_ASSERT(same);
  };
  // Keeps RapidCheck's report of the expected counterexample off the screen.
  testing::internal::CaptureStderr();
  const bool unseen = rc::check("planted defect", defect_unseen);
  testing::internal::GetCapturedStderr();
  EXPECT_FALSE(unseen);
  EXPECT_EQ(smallest.world_size, 2);
  EXPECT_EQ(smallest.order, sim::kDefaultOrder);
}

}  // namespace
