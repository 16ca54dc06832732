// Proves that a counting device computes what the device inside it computes, and that its count depends
// on the work of the program alone.

#include "sim/tensor/counting_device.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "sim/cpu/cpu_device.h"
#include "sim/tensor/matmul.h"
#include "sim/world/simulate.h"
#include "verify/cases/case.h"
#include "verify/cases/case_list.h"

namespace {

using namespace sim;

std::int64_t work_of(const RankProgram& program, std::int64_t eager_bytes = 0) {
  CpuDevice cpu;
  CountingDevice device(cpu);
  WorldSpec spec = world_of(2);
  spec.eager_bytes = eager_bytes;
  const RunReport run = simulate(spec, device, program);
  EXPECT_TRUE(run.ok()) << run.failure();
  return run.ranks.front().work;
}

TEST(CountingDevice, CountsMultiplyAddsOfProductsAndElementsOfOthers) {
  EXPECT_EQ(work_of([](Rank&) {}), 0);
  EXPECT_EQ(work_of([](Rank& rank) { filled(rank.device, DType::f32, {3, 5}, 1); }), 15);
  EXPECT_EQ(work_of([](Rank& rank) { keyed(rank.device, DType::f32, {3, 5}, rank.random); }), 0);
  const auto product = [](Rank& rank) {
    const Tensor a = keyed(rank.device, DType::f32, {2, 3, 5}, rank.random);
    const Tensor b = keyed(rank.device, DType::f32, {2, 5, 7}, rank.random);
    matmul(a, b);
    const Tensor c = keyed(rank.device, DType::f32, {5, 3}, rank.random);
    const Tensor d = keyed(rank.device, DType::f32, {7, 5}, rank.random);
    matmul(transposed(c), transposed(d));
  };
  EXPECT_EQ(work_of(product), 3 * 3 * 5 * 7);
}

/// The world uses the device of some rank to sum a collective and to keep an eager message. That is not
/// counted as work of the rank.
TEST(CountingDevice, WhatTheWorldComputesIsNoWorkOfARank) {
  const auto calls = [](Rank& rank) {
    Communicator& world = rank.groups.world();
    const Tensor x = keyed(rank.device, DType::f32, {64}, rank.random);
    world.all_reduce(x, ReduceOp::sum, "sum");
    if (world.rank() == 0) world.send(x, 1, "send");
    if (world.rank() == 1) world.recv(x, 0, "recv");
    rank.publish("x", x);
  };
  EXPECT_EQ(work_of(calls), 0);
  EXPECT_EQ(work_of(calls, 1 << 20), 0);
}

TEST(CountingDevice, ATensorOutlivesItsWorld) {
  Tensor kept;
  work_of([&](Rank& rank) {
    if (rank.id == 0) kept = filled(rank.device, DType::f32, {2}, 1);
  });
  EXPECT_EQ(host_bytes(kept), host_bytes(kept));
  EXPECT_STREQ(kept.device().name(), "cpu");
}

TEST(CountingDevice, WithoutItNothingIsKept) {
  CpuDevice cpu;
  const auto run = simulate(world_of(2), cpu, [](Rank& rank) { rank.groups.world().barrier("all"); });
  EXPECT_TRUE(run.ranks.front().moments.empty());
}

/// A counting device runs the kernels of the device inside it, so all cases give the same values and calls.
RC_GTEST_PROP(CountingDevice, ResultsAreThoseOfTheDeviceWithin, ()) {
  for (const auto& the_case : verify::all_cases()) {
    verify::CaseSetting setting{.group_size = *rc::gen::inRange(1, 4),
                                .ranks = the_case->ranks(),
                                .dtype = *rc::gen::element(DType::field, DType::f32, DType::bf16),
                                .seed = *rc::gen::arbitrary<std::uint64_t>()};
    for (const verify::Dimension& dimension : the_case->dimensions())
      setting.dimensions[dimension.name] = *rc::gen::inRange(dimension.least, dimension.most + 1);
    CpuDevice cpu(setting.seed);
    CountingDevice counting(cpu);
    const WorldSpec spec{.layout = make_layout(the_case->sizes(setting), RuleBook::megatron)};
    const auto program = [&](Rank& rank) { the_case->run(rank, setting); };
    const RunReport plain = simulate(spec, cpu, program), counted = simulate(spec, counting, program);
    RC_ASSERT(plain.ok());
    RC_ASSERT(counted.run_hash == plain.run_hash);
    for (const RankReport& rank : counted.ranks) RC_ASSERT(rank.moments.size() >= rank.calls.size());
  }
}

}  // namespace
