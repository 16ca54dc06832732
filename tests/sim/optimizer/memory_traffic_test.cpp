// Proves how many bytes of memory a step of ZeRO-1 reads and writes: on D ranks with buffers of one size, as
// a formula in D. A pass over a buffer that is added or saved changes it.

#include <cstdint>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "sim/optimizer/distributed_optimizer.h"
#include "sim/world/simulate.h"
#include "tests/support/counted_traffic.h"

namespace {

using namespace sim;

/// The traffic of one step on `ranks` ranks that hold one parameter of f32.
test::Traffic traffic_of_a_step(int ranks, std::int64_t elements, const DataParallelConfig& config) {
  test::CountedTraffic device;
  test::Traffic before, after;
  const RunReport report = simulate(world_of(ranks), device, [&](Rank& rank) {
    Parameter parameter = make_parameter(rank, "p", DType::f32, {elements}, {}, {});
    DistributedDataParallel data_parallel(rank, {{&parameter}}, config);
    DistributedOptimizer optimizer(rank, data_parallel, {});
    rank.groups.world().barrier("made");
    before = device.traffic();
    rank.groups.world().barrier("begins");
    data_parallel.zero_grads();
    data_parallel.grad_ready(parameter);
    data_parallel.finish_grad_sync();
    optimizer.step({1, 1000});
    rank.groups.world().barrier("through");
    after = device.traffic();
  });
  EXPECT_TRUE(report.ok()) << report.failure();
  return after.since(before);
}

// In buffers of one rank, of which there are D for gradients, D for values, and two for moments. Gradients
// are zeroed on all ranks, multiplied by their factor and reduced in one pass into one part of each buffer,
// and poisoned in the others. Adam reads gradients, values and moments, and writes all but the first. Values
// are gathered by reading each part once. Reading and writing each buffer once would be 4 D + 4 buffers.
RC_GTEST_PROP(MemoryTraffic, OfAZeroStepIsItsFormula, (bool average_in_collective)) {
  const int ranks = *rc::gen::inRange(2, 9);
  const std::int64_t block = 128 * *rc::gen::inRange<std::int64_t>(8, 17);  // of 4 KiB at least
  const std::int64_t buffer = block * ranks * size_of(DType::f32);
  const test::Traffic traffic =
      traffic_of_a_step(ranks, block * ranks, {.average_in_collective = average_in_collective});
  const std::int64_t zeroed = ranks, reduced = ranks, poisoned = ranks - 1;
  RC_ASSERT(traffic.read == (reduced + 4 + 1) * buffer);
  RC_ASSERT(traffic.written == (zeroed + 1 + poisoned + 3 + (ranks - 1)) * buffer);
}

}  // namespace
