// Proves how a process acts as a rank, as far as one process can show it: in a world of one whose
// program ends well or badly.

#include "gpu/nccl/nccl_cluster.h"

#include <gtest/gtest.h>
#include <stdexcept>

#include "sim/base/error.h"
#include "sim/cpu/cpu_device.h"
#include "sim/world/simulate.h"
#include "tests/gpu/nccl_dtypes.h"
#include "verify/backends/random_calls.h"
#include "verify/backends/rank_comparison.h"

namespace {

using namespace sim;

/// In a world of one, NCCL is asked for nothing but a device.
class OneRank : public gpu::NcclLibrary {
 public:
  int version() const override { return 22'809; }
  Bytes unique_id() override { return {}; }
  std::shared_ptr<Device> open_device(int, int rank, gpu::GpuMode) override { return whole_->for_rank(rank); }
  std::unique_ptr<gpu::NcclLink> open(const Bytes&, int, int) override { return nullptr; }
  void abort() override {}

 private:
  std::shared_ptr<CpuDevice> whole_ = std::make_shared<CpuDevice>();
};

gpu::NcclClusterSpec spec_of_one() {
  return {.launch = {.launcher = "none"}, .program_version = "test", .open = [] {
            return std::make_unique<OneRank>();
          }};
}

Layout one_rank() { return make_layout({.world_size = 1}, RuleBook::megatron); }

TEST(NcclCluster, AWorldOfOneDoesWhatItsVirtualTwinDoes) {
  const RankProgram program = [](Rank& rank) {
    verify::random_calls(rank, {.seed = 5, .steps = 200, .dtypes = test::kNcclDTypes});
  };
  CpuDevice device;
  const RunReport expected = simulate(world_of(1), device, program);
  ASSERT_TRUE(expected.ok()) << expected.failure();
  gpu::NcclCluster cluster(spec_of_one());
  const ProcessReport found = cluster.run({.layout = one_rank()}, program);
  EXPECT_EQ(verify::compare_ranks(expected.ranks.front(), found.rank, "nccl").difference, "");
  EXPECT_GT(found.rank.published.size(), 20U);
  EXPECT_EQ(cluster.finish({true, ""}).exit_code, 0);
  cluster.close();
}

void run_one(const Layout& layout, const RankProgram& program) {
  gpu::NcclCluster cluster(spec_of_one());
  cluster.run({.layout = layout}, program);
}

TEST(NcclClusterDeathTest, WhatIsWrongEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto ends = testing::ExitedWithCode(3);
  EXPECT_EXIT(run_one(one_rank(), [](Rank&) { throw std::runtime_error("no"); }), ends,
              "rank 0: rank_threw: .*no");
  EXPECT_EXIT(run_one(one_rank(), [](Rank& rank) { rank.groups.get("no-such-kind"); }), ends,
              "no_such_group");
  EXPECT_EXIT(run_one(make_layout({.world_size = 2}, RuleBook::megatron), [](Rank&) {}), ends,
              "backend_world");
  EXPECT_EXIT(
      run_one(one_rank(), [](Rank& rank) { static Work work = rank.groups.world().start_barrier("left"); }),
      ends, "pending_work: barrier at 'left'");
  const auto catches_refusals = [](Rank& rank) {
    for (;;) {
      try {
        rank.groups.world().broadcast(Tensor(), 1, "root of one");
      } catch (const Error&) {
      }
    }
  };
  const auto run_limited = [&] {
    gpu::NcclCluster cluster(spec_of_one());
    cluster.run({.layout = one_rank(), .call_limit = 100}, catches_refusals);
  };
  EXPECT_EXIT(run_limited(), ends,
              "rank_will_not_end: it catches refusals and goes on, the latest of call_root");
}

TEST(NcclCluster, RefusesItsOptions) {
  gpu::NcclClusterSpec spec = spec_of_one();
  spec.options.ranks_per_gpu = 0;
  EXPECT_THROW(gpu::NcclCluster cluster(spec), Error);
}

}  // namespace
