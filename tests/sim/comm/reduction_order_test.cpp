// Proves that each reduction order gives the bits of its definition. For the ring, the test passes
// messages around it as NCCL's kernels do, and does not use the closed form of the simulator.

#include "sim/comm/reduction_order.h"

#include <algorithm>
#include <cstdint>
#include <gtest/gtest.h>
#include <map>
#include <rapidcheck/gtest.h>
#include <string>
#include <vector>

#include "sim/cpu/cpu_device.h"
#include "sim/world/simulate.h"
#include "tests/support/tensor_values.h"

namespace {

using namespace sim;
using Order = std::vector<int>;

ProcessGroup group_of(int n) {
  ProcessGroup group{.kind = "dp"};
  for (int rank = 0; rank < n; ++rank) group.members.push_back(rank);
  return group;
}

/// Returns the order of contributions of every element, by the plan.
std::vector<Order> planned(const FoldPlan& plan, std::int64_t count, int n) {
  std::vector<Order> orders(static_cast<std::size_t>(count));
  for (const FoldSegment& segment : plan.segments) {
    for (std::int64_t i = segment.begin; i < segment.end; ++i) {
      for (int k = 0; k < n; ++k) {
        const auto position = static_cast<std::size_t>((segment.first + k) % n);
        orders[static_cast<std::size_t>(i)].push_back(plan.base.empty() ? static_cast<int>(position)
                                                                        : plan.base[position]);
      }
    }
  }
  return orders;
}

/// Every place sends chunks around the ring, adds what it receives to its own contribution and sends the
/// sum on.
std::vector<Order> emulated_all_reduce(std::int64_t count, int n, std::int64_t element_bytes) {
  std::vector<Order> orders(static_cast<std::size_t>(count));
  const std::int64_t full = (std::int64_t{2} << 20) / element_bytes;
  const std::int64_t grain = 16 / element_bytes;
  for (std::int64_t loop = 0; loop < count; loop += n * full) {
    const std::int64_t left = count - loop;
    std::int64_t chunk = full;
    if (left < n * full) {
      chunk = (left + n - 1) / n;
      while (grain > 1 && chunk % grain != 0) ++chunk;
    }
    struct Travelling {
      int chunk;
      Order order;
    };
    std::vector<Travelling> sent(static_cast<std::size_t>(n));
    for (int place = 0; place < n; ++place)
      sent[static_cast<std::size_t>(place)] = {(place + n - 1) % n, {place}};
    for (int hop = 1; hop < n; ++hop) {
      std::vector<Travelling> next(sent.size());
      for (int place = 0; place < n; ++place) {
        Travelling received = sent[static_cast<std::size_t>((place + n - 1) % n)];
        received.order.push_back(place);
        next[static_cast<std::size_t>(place)] = received;
      }
      sent = next;
    }
    for (const Travelling& finished : sent) {
      for (std::int64_t i = finished.chunk * chunk; i < std::min((finished.chunk + 1) * chunk, left); ++i) {
        orders[static_cast<std::size_t>(loop + i)] = finished.order;
      }
    }
  }
  return orders;
}

RC_GTEST_PROP(ReductionOrder, RingAllReduceIsThatOfMessagesAroundTheRing, ()) {
  const bool several_loops = *rc::gen::inRange(0, 50) == 0;  // half a million elements and more
  const int n = several_loops ? 2 : *rc::gen::inRange(2, 9);
  const DType dtype = several_loops ? DType::f64 : *rc::gen::element(DType::f64, DType::f32, DType::bf16);
  const std::int64_t full_loop = n * ((std::int64_t{2} << 20) / size_of(dtype));
  const std::int64_t count = several_loops ? full_loop + *rc::gen::inRange<std::int64_t>(-3, 100)
                                           : *rc::gen::inRange<std::int64_t>(0, 300);
  Call call(Operation::all_reduce, "x");
  call.count = count;
  call.dtype = dtype;
  const FoldPlan plan = fold_plan({.kind = ReductionOrderKind::nccl_ring}, call, group_of(n), 0);
  RC_ASSERT(planned(plan, count, n) == emulated_all_reduce(count, n, size_of(dtype)));
}

// The orders of this example were worked out step by step, apart from the code of this project.
TEST(ReductionOrder, TenFloatsOnARingOfFour) {
  Call call(Operation::all_reduce, "x");
  call.count = 10;
  call.dtype = DType::f32;
  const auto orders =
      planned(fold_plan({.kind = ReductionOrderKind::nccl_ring}, call, group_of(4), 0), 10, 4);
  EXPECT_EQ(orders[0], (Order{1, 2, 3, 0}));
  EXPECT_EQ(orders[3], (Order{1, 2, 3, 0}));
  EXPECT_EQ(orders[4], (Order{2, 3, 0, 1}));
  EXPECT_EQ(orders[7], (Order{2, 3, 0, 1}));
  EXPECT_EQ(orders[8], (Order{3, 0, 1, 2}));
}

TEST(ReductionOrder, RingReduceScatterAndReduceEndWithTheirRank) {
  Call call(Operation::reduce_scatter, "x");
  call.count = 2;
  call.dtype = DType::f32;
  const auto orders = planned(fold_plan({.kind = ReductionOrderKind::nccl_ring}, call, group_of(4), 2), 2, 4);
  EXPECT_EQ(orders[1], (Order{3, 0, 1, 2}));
}

/// One step of the definition: the sum starts with rnd(x[o0]), and each step is s = rnd(x[o] + s).
template <typename Scalar>
Scalar sum(Scalar a, Scalar b) {
  if constexpr (std::is_same_v<Scalar, bfloat16>) {
    return to_bfloat16(to_float(a) + to_float(b));
  } else {
    return a + b;
  }
}

template <typename Scalar>
void expect_folds(DType dtype) {
  const int n = *rc::gen::inRange(2, 7);
  const auto count = *rc::gen::inRange<std::int64_t>(1, 60);
  const int root = *rc::gen::inRange(0, n);
  const ReductionOrder order{.kind = static_cast<ReductionOrderKind>(*rc::gen::inRange(0, 3)),
                             .seed = *rc::gen::arbitrary<std::uint64_t>()};
  CpuDevice device;
  WorldSpec spec = world_of(n);
  spec.reduction_order = order;
  spec.seed = *rc::gen::arbitrary<std::uint64_t>();
  const KeyedRandom random = KeyedRandom(spec.seed).named("x");
  const auto own = [&](Device& on, int rank) {
    return keyed(on, dtype, {n * count}, random, rank * n * count);
  };
  const RunReport report = simulate(spec, device, [&](Rank& rank) {
    const Tensor x = own(rank.device, rank.id);
    const Tensor block = rank.device.empty(dtype, {count});
    const Tensor reduced = own(rank.device, rank.id);
    rank.groups.world().reduce_scatter(x, block, ReduceOp::sum, "x");
    rank.groups.world().all_reduce(x, ReduceOp::sum, "x");
    rank.groups.world().reduce(reduced, ReduceOp::sum, root, "x");
    rank.publish("reduced", reduced);
    rank.publish("all", x);
    rank.publish("block", block);
  });
  RC_ASSERT(report.ok());
  std::vector<std::vector<Scalar>> inputs;
  for (int rank = 0; rank < n; ++rank) inputs.push_back(test::values<Scalar>(own(device, rank)));
  const auto folded = [&](const Order& places, std::size_t i) {
    Scalar result = inputs[static_cast<std::size_t>(places[0])][i];
    for (std::size_t k = 1; k < places.size(); ++k) {
      result = sum(inputs[static_cast<std::size_t>(places[k])][i], result);
    }
    return result;
  };
  Order ascending;
  for (int rank = 0; rank < n; ++rank) ascending.push_back(rank);
  const auto ring = emulated_all_reduce(n * count, n, size_of(dtype));
  for (int rank = 0; rank < n; ++rank) {
    const auto all = test::values<Scalar>(report.find(rank, "all"));
    const auto block = test::values<Scalar>(report.find(rank, "block"));
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (order.kind == ReductionOrderKind::rank_order) RC_ASSERT(all[i] == folded(ascending, i));
      if (order.kind == ReductionOrderKind::nccl_ring) RC_ASSERT(all[i] == folded(ring[i], i));
      if (order.kind != ReductionOrderKind::shuffled) continue;
      Order places = ascending;  // any order may be that of this call, so all are tried
      bool found = false;
      do {
        found = folded(places, i) == all[i];
      } while (!found && std::next_permutation(places.begin(), places.end()));
      RC_ASSERT(found);
    }
    Order ending_here;
    for (int k = 1; k <= n; ++k) ending_here.push_back((rank + k) % n);
    const auto reduced = test::values<Scalar>(report.find(rank, "reduced"));
    for (std::size_t i = 0; rank == root && i < reduced.size(); ++i) {
      if (order.kind == ReductionOrderKind::rank_order) RC_ASSERT(reduced[i] == folded(ascending, i));
      if (order.kind == ReductionOrderKind::nccl_ring) RC_ASSERT(reduced[i] == folded(ending_here, i));
    }
    for (std::size_t i = 0; i < block.size(); ++i) {
      const std::size_t at = static_cast<std::size_t>(rank) * block.size() + i;
      if (order.kind == ReductionOrderKind::rank_order) RC_ASSERT(block[i] == folded(ascending, at));
      if (order.kind == ReductionOrderKind::nccl_ring) RC_ASSERT(block[i] == folded(ending_here, at));
    }
  }
}

RC_GTEST_PROP(ReductionOrder, FloatsHaveTheBitsOfTheDefinition, ()) { expect_folds<float>(DType::f32); }
RC_GTEST_PROP(ReductionOrder, Bfloat16IsRoundedAtEachHop, ()) { expect_folds<bfloat16>(DType::bf16); }

// 1 + 2^30 - 2^30 is 0 or 1 in f32, depending on the order. Each of these calls gives both results, over
// the seeds and over its repetitions.
TEST(ReductionOrder, ShuffledIsAnotherOrderForAnotherSeedAndCall) {
  constexpr int kTries = 30;
  CpuDevice device;
  const auto program = [](Rank& rank) {
    const double values[] = {1, 0x1p30, -0x1p30};
    Communicator& world = rank.groups.world();
    for (const auto operation : {Operation::all_reduce, Operation::reduce, Operation::reduce_scatter}) {
      const Tensor x = filled(rank.device, DType::f32, {3}, values[rank.id]);
      const Tensor block = rank.device.empty(DType::f32, {1});
      if (operation == Operation::all_reduce) world.all_reduce(x, ReduceOp::sum, "x");
      if (operation == Operation::reduce) world.reduce(x, ReduceOp::sum, 0, "x");
      if (operation == Operation::reduce_scatter) world.reduce_scatter(x, block, ReduceOp::sum, "x");
      rank.publish(std::string(name_of(operation)), operation == Operation::reduce_scatter ? block : x);
    }
  };
  WorldSpec spec = world_of(3);
  spec.reduction_order.kind = ReductionOrderKind::shuffled;
  std::map<std::string, float> sums;
  for (int seed = 0; seed < kTries; ++seed) {
    spec.reduction_order.seed = static_cast<std::uint64_t>(seed);
    const RunReport report = simulate(spec, device, program);
    for (const Published& x : report.ranks[0].published) sums[x.name] += test::values<float>(&x)[0];
  }
  EXPECT_EQ(sums.size(), 3U);
  const RunReport repeated = simulate(spec, device, [&](Rank& rank) {
    for (int i = 0; i < kTries; ++i) program(rank);
  });
  for (const Published& x : repeated.ranks[0].published) {
    sums[x.name + ", repeated"] += test::values<float>(&x)[0];
  }
  for (const auto& [name, sum] : sums) {
    EXPECT_GT(sum, 0) << name;
    EXPECT_LT(sum, kTries) << name;
  }
}

}  // namespace
