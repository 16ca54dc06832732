// Proves that a group crosses a node exactly where it has members on two nodes, and how ranks are placed
// on nodes.

#include "sim/layout/node_placement.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <set>

#include "sim/layout/layout.h"
#include "tests/support/enumerated_layout.h"
#include "tests/support/layout_generator.h"

namespace {

RC_GTEST_PROP(NodePlacement, CrossingIsHavingMembersOnTwoNodes, ()) {
  const sim::ParallelSizes sizes = *test::accepted_megatron_sizes();
  const sim::NodePlacement nodes{*rc::gen::inRange(1, 40)};
  const sim::Layout layout = sim::make_layout(sizes, sim::RuleBook::megatron);
  for (const sim::GroupKind& kind : layout.kinds) {
    int crossing = 0;
    for (const auto& members : test::lists_of(kind)) {
      std::set<int> on;
      for (const int rank : members) on.insert(rank / nodes.gpus_per_node);
      crossing += on.size() > 1 ? 1 : 0;
    }
    RC_ASSERT(nodes.groups_crossing_node(kind) == crossing);
  }
}

TEST(NodePlacement, RoundRobinInsideANode) {  // seed 001 writes rank % num_gpus
  const sim::NodePlacement nodes{4};
  for (int rank = 0; rank < 30; ++rank) {
    EXPECT_EQ(nodes.gpu_of(rank), rank % 4);
    EXPECT_EQ(nodes.node_of(rank) * 4 + nodes.gpu_of(rank), rank);
  }
}

}  // namespace
