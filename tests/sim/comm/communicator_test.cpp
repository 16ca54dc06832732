// Proves what each operation gives on virtual ranks, by its definition, and why a call is refused before
// it is posted.

#include "sim/comm/communicator.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <gtest/gtest.h>
#include <memory>
#include <numeric>
#include <rapidcheck/gtest.h>
#include <set>
#include <string>
#include <vector>

#include "sim/base/error.h"
#include "sim/cpu/cpu_device.h"
#include "sim/tensor/counting_device.h"
#include "sim/tensor/ops.h"
#include "sim/world/simulate.h"
#include "tests/support/tensor_values.h"

namespace {

using namespace sim;
using test::tensor_of;
using test::values;
using Ints = std::vector<std::int32_t>;

/// Element i of rank r. Any two elements differ, and sums stay small.
std::int32_t value(int rank, std::int64_t i) { return static_cast<std::int32_t>(100 * (rank + 1) + i); }

Tensor own(Rank& rank, std::int64_t count) {
  Ints given(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) given[static_cast<std::size_t>(i)] = value(rank.id, i);
  return tensor_of(rank.device, DType::i32, {count}, given);
}

Tensor zeros(Rank& rank, std::int64_t count) { return filled(rank.device, DType::i32, {count}, 0); }

/// Runs on n ranks under a drawn schedule. Returns what each rank published as "x".
std::vector<Ints> run(int n, const RankProgram& program) {
  CpuDevice device;
  WorldSpec spec = world_of(n);
  const int policy = *rc::gen::inRange(0, 3);
  spec.schedule = {.policy = static_cast<SchedulePolicy>(policy),
                   .seed = *rc::gen::arbitrary<std::uint64_t>()};
  spec.threads = *rc::gen::inRange(1, 4);
  spec.contexts = *rc::gen::arbitrary<bool>() ? ContextKind::fiber : ContextKind::thread;
  const RunReport report = simulate(spec, device, program);
  if (!report.ok()) RC_FAIL(report.failure());
  std::vector<Ints> result;
  for (int rank = 0; rank < n; ++rank) result.push_back(values<std::int32_t>(report.find(rank, "x")));
  return result;
}

struct Drawn {
  int n = *rc::gen::inRange(1, 7);
  std::int64_t count = *rc::gen::inRange(0, 9);
  int root = *rc::gen::inRange(0, n);
};

RC_GTEST_PROP(Communicator, ReductionsAreTheirDefinition, ()) {
  const Drawn drawn;
  const auto op = static_cast<ReduceOp>(*rc::gen::inRange(0, 5));
  const auto folded = [&](std::int64_t i) {
    std::int64_t result = value(0, i);
    for (int rank = 1; rank < drawn.n; ++rank) {
      const std::int64_t next = value(rank, i);
      if (op == ReduceOp::max) result = std::max(result, next);
      if (op == ReduceOp::min) result = std::min(result, next);
      if (op == ReduceOp::product)
        result = static_cast<std::int32_t>(static_cast<std::uint32_t>(result * next));
      if (op == ReduceOp::sum || op == ReduceOp::average) result += next;
    }
    return static_cast<std::int32_t>(op == ReduceOp::average ? result / drawn.n : result);
  };
  const auto all = run(drawn.n, [&](Rank& rank) {
    const Tensor x = own(rank, drawn.count);
    rank.groups.world().all_reduce(x, op, "x");
    rank.publish("x", x);
  });
  const auto at_root = run(drawn.n, [&](Rank& rank) {
    const Tensor x = own(rank, drawn.count);
    rank.groups.world().reduce(x, op, drawn.root, "x");
    rank.publish("x", x);
  });
  const auto scattered = run(drawn.n, [&](Rank& rank) {
    const Tensor x = zeros(rank, drawn.count);
    rank.groups.world().reduce_scatter(own(rank, drawn.n * drawn.count), x, op, "x");
    rank.publish("x", x);
  });
  for (int rank = 0; rank < drawn.n; ++rank) {
    for (std::int64_t i = 0; i < drawn.count; ++i) {
      const auto r = static_cast<std::size_t>(rank);
      const auto e = static_cast<std::size_t>(i);
      RC_ASSERT(all[r][e] == folded(i));
      RC_ASSERT(at_root[r][e] == (rank == drawn.root ? folded(i) : value(rank, i)));
      RC_ASSERT(scattered[r][e] == folded(rank * drawn.count + i));
    }
  }
}

// The work of a rank is counted in a world with a timeline, where inputs are multiplied before the call.
RC_GTEST_PROP(Communicator, InputsAreMultipliedBeforeTheyAreReduced, (bool counts_work)) {
  const int n = *rc::gen::inRange(1, 7);
  const std::int64_t count = *rc::gen::inRange(0, 9);
  const Reduction reduction(*rc::gen::element(ReduceOp::sum, ReduceOp::max),
                            {*rc::gen::inRange(-3, 4), *rc::gen::inRange(1, 7)});
  CpuDevice plain;
  CountingDevice counting(plain);
  Device& device = counts_work ? static_cast<Device&>(counting) : plain;
  const RunReport report = simulate(world_of(n), device, [&](Rank& rank) {
    Communicator& world = rank.groups.world();
    const Tensor all = own(rank, count), scattered = zeros(rank, count);
    world.start_all_reduce(all, reduction, "x").wait();
    world.start_reduce_scatter(own(rank, n * count), scattered, reduction, "x").wait();
    rank.publish("all", all);
    rank.publish("scattered", scattered);
    const Tensor before = own(rank, count), to_scatter = own(rank, n * count);
    for (Tensor x : {before, to_scatter}) scale_in_place(x, reduction.factor);
    world.all_reduce(before, reduction.op, "x");
    world.reduce_scatter(to_scatter, scattered, reduction.op, "x");
    rank.publish("all of scaled", before);
    rank.publish("scattered of scaled", scattered);
  });
  RC_ASSERT(report.ok());
  for (int rank = 0; rank < n; ++rank) {
    for (const std::string name : {"all", "scattered"}) {
      RC_ASSERT(values<std::int32_t>(report.find(rank, name)) ==
                values<std::int32_t>(report.find(rank, name + " of scaled")));
    }
  }
}

RC_GTEST_PROP(Communicator, CopiesAreTheirDefinition, ()) {
  const Drawn drawn;
  const int n = drawn.n;
  const std::int64_t count = drawn.count;
  Ints gathered;
  for (int rank = 0; rank < n; ++rank) {
    for (std::int64_t i = 0; i < count; ++i) gathered.push_back(value(rank, i));
  }
  const auto all = run(n, [&](Rank& rank) {
    const Tensor x = zeros(rank, n * count);
    rank.groups.world().all_gather(own(rank, count), x, "x");
    rank.publish("x", x);
  });
  const auto at_root = run(n, [&](Rank& rank) {
    const bool root = rank.id == drawn.root;
    const Tensor x = root ? zeros(rank, n * count) : Tensor();
    rank.groups.world().gather(own(rank, count), x, drawn.root, "x");
    rank.publish("x", root ? x : zeros(rank, 0));
  });
  const auto broadcast = run(n, [&](Rank& rank) {
    const Tensor x = own(rank, count);
    rank.groups.world().broadcast(x, drawn.root, "x");
    rank.publish("x", x);
  });
  const auto scattered = run(n, [&](Rank& rank) {
    const Tensor x = zeros(rank, count);
    rank.groups.world().scatter(rank.id == drawn.root ? own(rank, n * count) : Tensor(), x, drawn.root, "x");
    rank.publish("x", x);
  });
  const auto exchanged = run(n, [&](Rank& rank) {
    const Tensor x = zeros(rank, n * count);
    rank.groups.world().all_to_all(own(rank, n * count), x, "x");
    rank.publish("x", x);
  });
  for (int rank = 0; rank < n; ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    RC_ASSERT(all[r] == gathered);
    RC_ASSERT(at_root[r] == (rank == drawn.root ? gathered : Ints{}));
    for (std::int64_t i = 0; i < count; ++i) {
      const auto e = static_cast<std::size_t>(i);
      RC_ASSERT(broadcast[r][e] == value(drawn.root, i));
      RC_ASSERT(scattered[r][e] == value(drawn.root, rank * count + i));
      for (int from = 0; from < n; ++from) {
        RC_ASSERT(exchanged[r][static_cast<std::size_t>(from * count + i)] == value(from, rank * count + i));
      }
    }
  }
}

/// Gathers blocks of `count` elements. Ranks below `in_place` give their own block of the output. Returns
/// whether every rank has all blocks in their order.
bool is_gathered(int n, std::int64_t count, int in_place) {
  const auto all = run(n, [&](Rank& rank) {
    const Tensor x = zeros(rank, n * count);
    Tensor input = own(rank, count);
    if (rank.id < in_place) {
      Tensor block = x.rows(rank.id * count, (rank.id + 1) * count);
      copy(input, block);
      input = block;
    }
    rank.groups.world().all_gather(input, x, "x");
    rank.publish("x", x);
  });
  Ints expected;
  for (int rank = 0; rank < n; ++rank) {
    for (std::int64_t i = 0; i < count; ++i) expected.push_back(value(rank, i));
  }
  return std::all_of(all.begin(), all.end(), [&](const auto& gathered) { return gathered == expected; });
}

// Blocks of 4 KiB and more are written to each output alone.
RC_GTEST_PROP(Communicator, BlocksOfAllSizesAreGathered, ()) {
  const int n = *rc::gen::inRange(1, 6);
  const std::int64_t count = *rc::gen::element<std::int64_t>(0, 7, 1023, 1024, 1500);
  RC_ASSERT(is_gathered(n, count, *rc::gen::inRange(0, n + 1)));
}

// A call that has an output of its own leaves its input as it was, whether blocks are so small that they are
// folded all at once or not.
RC_GTEST_PROP(Communicator, ACallLeavesItsInputAsItWas, ()) {
  const std::int64_t count = *rc::gen::element(1, 3, 1100);
  const auto inputs = run(3, [&](Rank& rank) {
    Communicator& world = rank.groups.world();
    const Tensor blocks = own(rank, 3 * count), block = blocks.rows(0, count);
    const Tensor one = zeros(rank, count), three = zeros(rank, 3 * count);
    world.reduce_scatter(blocks, one, ReduceOp::sum, "x");
    world.all_gather(block, three, "x");
    world.gather(block, rank.id == 1 ? three : Tensor(), 1, "x");
    world.scatter(rank.id == 1 ? blocks : Tensor(), one, 1, "x");
    world.all_to_all(blocks, three, "x");
    world.all_to_all_uneven(blocks.reshaped({3, count}), {1, 1, 1}, three.reshaped({3, count}), {1, 1, 1},
                            "x");
    world.broadcast(rank.id == 1 ? block : one, 1, "x");
    world.start_reduce_scatter(blocks, one, ReduceOp::max, "x").wait();
    if (rank.id == 0) world.send(block, 1, "x");
    if (rank.id == 1) world.recv(one, 0, "x");
    rank.publish("x", blocks);
  });
  for (int rank = 0; rank < 3; ++rank) {
    for (std::int64_t i = 0; i < 3 * count; ++i)
      RC_ASSERT(inputs[static_cast<std::size_t>(rank)][static_cast<std::size_t>(i)] == value(rank, i));
  }
}

RC_GTEST_PROP(Communicator, UnevenExchangesAreTheirDefinition, ()) {
  const int n = *rc::gen::inRange(1, 6);
  const auto size = static_cast<std::size_t>(n);
  const std::int64_t width = *rc::gen::inRange(1, 4);
  std::vector<std::vector<std::int64_t>> rows(size);  // [from][to]
  for (auto& of_rank : rows)
    of_rank = *rc::gen::container<std::vector<std::int64_t>>(size, rc::gen::inRange<std::int64_t>(0, 4));
  const auto all = run(n, [&](Rank& rank) {
    const auto& send_rows = rows[static_cast<std::size_t>(rank.id)];
    std::vector<std::int64_t> receive_rows;
    for (const auto& of_rank : rows) receive_rows.push_back(of_rank[static_cast<std::size_t>(rank.id)]);
    const std::int64_t sent = std::accumulate(send_rows.begin(), send_rows.end(), std::int64_t{0});
    const std::int64_t received = std::accumulate(receive_rows.begin(), receive_rows.end(), std::int64_t{0});
    const Tensor x = zeros(rank, received * width).reshaped({received, width});
    rank.groups.world().all_to_all_uneven(own(rank, sent * width).reshaped({sent, width}), send_rows, x,
                                          receive_rows, "x");
    rank.publish("x", x);
  });
  for (std::size_t to = 0; to < size; ++to) {
    Ints expected;
    for (std::size_t from = 0; from < size; ++from) {
      const std::int64_t before = std::accumulate(
          rows[from].begin(), rows[from].begin() + static_cast<std::ptrdiff_t>(to), std::int64_t{0});
      for (std::int64_t i = 0; i < rows[from][to] * width; ++i) {
        expected.push_back(value(static_cast<int>(from), before * width + i));
      }
    }
    RC_ASSERT(all[to] == expected);
  }
}

TEST(Communicator, AGroupOfOneSplitsBetweenOtherCalls) {
  CpuDevice device;
  int made = 0;
  const RunReport report = simulate(world_of(1), device, [&](Rank& rank) {
    Communicator& alone = rank.groups.world();
    for (const char* name : {"first", "second"}) {
      alone.barrier("before");
      const auto part = alone.split(3, 0, Site::named(name));
      part->barrier("in it");
      made += part->size();
      rank.groups.new_group(name, {0}, "group")->barrier("in the group");
    }
  });
  EXPECT_TRUE(report.ok());
  EXPECT_EQ(made, 2);
}

RC_GTEST_PROP(Communicator, MessagesArriveInOrderAndBatchesProgress, ()) {
  const int n = *rc::gen::inRange(2, 6);
  const auto all = run(n, [&](Rank& rank) {
    const Tensor x = zeros(rank, 2);
    const Tensor first = own(rank, 1);
    const Tensor second = scale(first, {2, 1});
    const int next = (rank.id + 1) % n;
    const int before = (rank.id + n - 1) % n;
    const std::vector<PointToPoint> ring = {{Operation::send, first, next},
                                            {Operation::send, second, next},
                                            {Operation::recv, x.rows(0, 1), before},
                                            {Operation::recv, x.rows(1, 2), before}};
    rank.groups.world().batch(ring, "ring");
    rank.publish("x", x);
  });
  for (int rank = 0; rank < n; ++rank) {
    const int before = (rank + n - 1) % n;
    RC_ASSERT((all[static_cast<std::size_t>(rank)] == Ints{value(before, 0), 2 * value(before, 0)}));
  }
}

RC_GTEST_PROP(Communicator, SplitGroupsByColorAndKey, ()) {
  const int n = *rc::gen::inRange(1, 7);
  const auto colors =
      *rc::gen::container<std::vector<int>>(static_cast<std::size_t>(n), rc::gen::inRange(-1, 3));
  const auto keys =
      *rc::gen::container<std::vector<int>>(static_cast<std::size_t>(n), rc::gen::inRange(-2, 3));
  const auto all = run(n, [&](Rank& rank) {
    const auto r = static_cast<std::size_t>(rank.id);
    const auto part = rank.groups.world().split(colors[r], keys[r], "part");
    Ints members;
    if (part != nullptr) {
      members.assign(part->group().members.begin(), part->group().members.end());
      const Tensor x = zeros(rank, part->size());
      part->all_gather(own(rank, 1), x, "part.gather");
      const Ints seen = values<std::int32_t>(x);
      for (std::size_t i = 0; i < seen.size(); ++i) {
        if (seen[i] != value(members[i], 0)) members.clear();
      }
    }
    rank.publish("x", tensor_of(rank.device, DType::i32, {std::ssize(members)}, members));
  });
  for (int rank = 0; rank < n; ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    std::vector<std::pair<int, int>> expected;  // (key, rank)
    for (int other = 0; other < n; ++other) {
      const auto o = static_cast<std::size_t>(other);
      if (colors[r] >= 0 && colors[o] == colors[r]) expected.emplace_back(keys[o], other);
    }
    std::sort(expected.begin(), expected.end());
    Ints members;
    for (const auto& [key, other] : expected) members.push_back(other);
    RC_ASSERT(all[r] == members);
  }
}

TEST(Communicator, WrongCallsAreRefusedInTheRankThatMakesThem) {
  struct Wrong {
    const char* code;
    RankProgram program;
  };
  CpuDevice elsewhere;
  const Tensor of_elsewhere = filled(elsewhere, DType::f32, {1}, 0);
  const auto world = [](Rank& rank) -> Communicator& { return rank.groups.world(); };
  const std::vector<Wrong> all = {
      {"null_tensor", [&](Rank& r) { world(r).all_reduce(Tensor(), ReduceOp::sum, "site"); }},
      {"wrong_device", [&](Rank& r) { world(r).all_reduce(of_elsewhere, ReduceOp::sum, "site"); }},
      {"call_root", [&](Rank& r) { world(r).broadcast(zeros(r, 1), 2, "site"); }},
      {"call_root", [&](Rank& r) { world(r).reduce(zeros(r, 1), ReduceOp::sum, -1, "site"); }},
      {"call_peer", [&](Rank& r) { world(r).send(zeros(r, 1), r.id, "site"); }},
      {"call_peer", [&](Rank& r) { world(r).recv(zeros(r, 1), 2, "site"); }},
      {"call_shape", [&](Rank& r) { world(r).all_gather(zeros(r, 2), zeros(r, 3), "site"); }},
      {"call_shape",
       [&](Rank& r) { world(r).reduce_scatter(zeros(r, 3), zeros(r, 2), ReduceOp::sum, "site"); }},
      {"call_shape", [&](Rank& r) { world(r).all_gather(zeros(r, 2), zeros(r, 5), "site"); }},
      {"call_shape", [&](Rank& r) { world(r).all_to_all(zeros(r, 3), zeros(r, 3), "site"); }},
      {"call_shape", [&](Rank& r) { world(r).all_to_all(zeros(r, 2), zeros(r, 4), "site"); }},
      {"call_shape",
       [&](Rank& r) {
         world(r).all_to_all_uneven(zeros(r, 2), {1, 1}, zeros(r, 4).reshaped({2, 2}), {1, 1}, "site");
       }},
      {"dtype_mismatch",
       [&](Rank& r) { world(r).all_gather(zeros(r, 1), filled(r.device, DType::f32, {2}, 0), "site"); }},
      {"bad_ratio",
       [&](Rank& r) {
         world(r).start_all_reduce(zeros(r, 1), {ReduceOp::sum, {1, 0}}, "site").wait();
       }},
      {"split_rows",
       [&](Rank& r) {
         world(r).all_to_all_uneven(zeros(r, 2), {1}, zeros(r, 2), {1, 1}, "site");
       }},
      {"split_rows",
       [&](Rank& r) {
         world(r).all_to_all_uneven(zeros(r, 2), {3, -1}, zeros(r, 2), {1, 1}, "site");
       }},
      {"split_rows",
       [&](Rank& r) {
         world(r).all_to_all_uneven(zeros(r, 2), {1, 0}, zeros(r, 2), {1, 1}, "site");
       }},
      {"split_rows",
       [&](Rank& r) {
         world(r).all_to_all_uneven(zeros(r, 2), {1, 1}, zeros(r, 2), {1, 2}, "site");
       }},
      {"overlapping_buffers",
       [&](Rank& r) {
         const Tensor x = zeros(r, 4);
         world(r).all_gather(x.rows(1, 3), x, "site");
       }},
      {"overlapping_buffers",
       [&](Rank& r) {
         const Tensor x = zeros(r, 4);
         world(r).scatter(x, x.rows(0, 2), r.id, "site");
       }},
      {"buffer_in_flight_write",
       [&](Rank& r) {
         const Tensor read = zeros(r, 1);
         const Work work = world(r).start_all_gather(read, zeros(r, 2), "first");
         world(r).recv(read, 1 - r.id, "site");
       }},
      {"buffer_in_flight_read",
       [&](Rank& r) {
         const Tensor written = zeros(r, 2);
         const Work work = world(r).start_all_gather(zeros(r, 1), written, "first");
         world(r).send(written, 1 - r.id, "site");
       }},
      {"no_such_group", [](Rank& r) { r.groups.get("no-such-kind").barrier("site"); }},
      {"bad_group",
       [](Rank& r) {
         r.groups.new_group("twice", {0, 0}, "site");
       }},
      {"bad_group",
       [](Rank& r) {
         r.groups.new_group("outside", {0, 2}, "site");
       }},
      {"bad_group_name",
       [](Rank& r) {
         r.groups.new_group("world", {0, 1}, "site");
       }},
      {"bad_group_name",
       [](Rank& r) {
         r.groups.new_group("dp", {0, 1}, "site");
       }},
      {"bad_group_name",
       [](Rank& r) {
         r.groups.new_group("world[0].split0", {0, 1}, "site");
       }},
      {"bad_group_name",
       [](Rank& r) {
         r.groups.new_group("", {0, 1}, "site");
       }},
      {"call_operation",
       [&](Rank& r) { world(r).all_reduce(zeros(r, 1), static_cast<ReduceOp>(9), "site"); }},
      {"call_operation",
       [&](Rank& r) {
         const PointToPoint barrier{Operation::barrier, zeros(r, 1), 1 - r.id};
         world(r).batch({&barrier, 1}, "site");
       }},
      {"shape_mismatch", [](Rank& r) { add(zeros(r, 1), zeros(r, 2)); }},
  };
  CpuDevice device;
  for (const Wrong& wrong : all) {
    const RunReport report = simulate(world_of(2), device, wrong.program);
    std::set<int> ranks;
    for (const Finding& finding : report.findings) {
      EXPECT_EQ(finding.code, wrong.code) << report.failure();
      for (const CallFacts& facts : finding.calls) ranks.insert(facts.rank);
    }
    EXPECT_EQ(ranks, (std::set<int>{0, 1})) << wrong.code;
    const bool names_site = report.failure().find("'site'") != std::string::npos;
    const bool is_of_a_call =
        std::string(wrong.code) != "no_such_group" && std::string(wrong.code) != "shape_mismatch";
    EXPECT_EQ(names_site, is_of_a_call) << report.failure();
  }
}

TEST(Communicator, GroupsThatDoNotAllRunAreRefused) {
  CpuDevice device;
  WorldSpec spec = world_of(4);
  spec.ranks = {1, 2};
  const RunReport alone = simulate(spec, device, [](Rank& rank) { rank.groups.world().barrier("both"); });
  EXPECT_TRUE(alone.ok()) << alone.failure();
  // It does not matter which member is the one that does not run.
  for (const std::vector<int>& ranks : {std::vector<int>{1, 2}, {0, 1}, {0, 1, 3}}) {
    spec.ranks = ranks;
    const RunReport report = simulate(spec, device, [](Rank& rank) { rank.groups.get("dp").barrier("all"); });
    ASSERT_FALSE(report.ok());
    EXPECT_EQ(report.findings[0].code, "group_not_present");
  }
}

TEST(Communicator, NewGroupsAreOfRanksThatRun) {
  CpuDevice device;
  WorldSpec spec = world_of(4);
  spec.ranks = {1, 3};
  const RunReport report = simulate(spec, device, [](Rank& rank) {
    for (int i = 0; i < 2; ++i) {  // two groups of the same name
      Communicator* pair = rank.groups.new_group("pair", {3, 1}, "pair");
      const Tensor x = zeros(rank, 2);
      pair->all_gather(own(rank, 1), x, "pair.gather");
      rank.publish("x", x);
    }
  });
  ASSERT_TRUE(report.ok()) << report.failure();
  EXPECT_EQ(values<std::int32_t>(report.find(1, "x")), (Ints{value(3, 0), value(1, 0)}));
  const RunReport outside = simulate(spec, device, [](Rank& rank) {
    rank.groups.new_group("pair", {1, 2}, "pair");
  });
  ASSERT_FALSE(outside.ok());
  EXPECT_EQ(outside.findings[0].code, "bad_group");
}

// Collectives are numbered by group, and messages by peer and direction.
TEST(Communicator, CallsAreRecordedWithTheirNumberAndRootOrPeer) {
  CpuDevice device;
  const RunReport report = simulate(world_of(3), device, [](Rank& rank) {
    Communicator& world = rank.groups.world();
    world.barrier("x");
    world.broadcast(zeros(rank, 1), 2, "x");
    if (rank.id == 0) {
      world.send(zeros(rank, 1), 1, "x");
      world.recv(zeros(rank, 1), 1, "x");
      world.send(zeros(rank, 1), 2, "x");
      world.recv(zeros(rank, 1), 1, "x");
    } else {
      world.recv(zeros(rank, 1), 0, "x");
      for (int i = 0; rank.id == 1 && i < 2; ++i) world.send(zeros(rank, 1), 0, "x");
    }
  });
  ASSERT_TRUE(report.ok()) << report.failure();
  using Facts = std::vector<std::pair<std::int64_t, int>>;  // sequence number, root or peer
  Facts facts;
  for (const CallRecord& call : report.ranks[0].calls) facts.emplace_back(call.sequence, call.root_or_peer);
  EXPECT_EQ(facts, (Facts{{0, -1}, {1, 2}, {0, 1}, {0, 1}, {0, 2}, {1, 1}}));
}

TEST(Communicator, WorldsThatAreNoneAreRefused) {
  CpuDevice device;
  const auto code_of = [&](const WorldSpec& spec) {
    try {
      simulate(spec, device, [](Rank&) {});
    } catch (const Error& error) {
      return error.refusal().code;
    }
    return std::string("none");
  };
  WorldSpec spec = world_of(2);
  spec.threads = 0;
  EXPECT_EQ(code_of(spec), "world_spec");
  spec = world_of(2);
  spec.ranks = {1, 0};
  EXPECT_EQ(code_of(spec), "world_spec");
  const std::vector<std::function<void(WorldSpec&)>> all = {
      [](WorldSpec& s) { s.eager_bytes = -1; },        [](WorldSpec& s) { s.stack_bytes = 1; },
      [](WorldSpec& s) { s.schedule.depth = 0; },      [](WorldSpec& s) { s.call_limit = 0; },
      [](WorldSpec& s) { s.nodes.gpus_per_node = 0; }, [](WorldSpec& s) { s.threads = 257; }};
  for (const auto& spoil : all) {
    spec = world_of(2);
    spoil(spec);
    EXPECT_EQ(code_of(spec), "world_spec") << &spoil - all.data();
  }
  spec = world_of(2);
  for (const std::vector<int>& ranks : {std::vector<int>{0, 2}, {-1, 0}, {0, 0}}) {
    spec.ranks = ranks;
    EXPECT_EQ(code_of(spec), "world_spec");
  }
}

/// A blocking call borrows its tensor, and a started one keeps it, as its caller may drop it.
TEST(Communicator, BlockingCallsBorrowTheirTensors) {
  CpuDevice device;
  std::shared_ptr<Storage> storage;
  long before = 0, blocked = 0, started = 0;
  simulate(world_of(2), device, [&](Rank& rank) {
    Communicator& world = rank.groups.world();
    if (rank.id == 0) {
      storage = std::make_shared<Storage>(std::make_shared<MemoryPool>(), 0, 16);
      const Tensor x(rank.device, DType::f32, {4}, storage);
      before = storage.use_count();
      world.all_reduce(x, ReduceOp::sum, "blocking");
      Work work = world.start_all_reduce(x, ReduceOp::sum, "started");
      started = storage.use_count();
      work.wait();
    } else {
      blocked = storage.use_count();  // rank 0 waits
      const Tensor y = filled(rank.device, DType::f32, {4}, 0);
      world.all_reduce(y, ReduceOp::sum, "blocking");
      world.start_all_reduce(y, ReduceOp::sum, "started").wait();
    }
  });
  EXPECT_EQ(blocked, before);
  EXPECT_GT(started, before);
}

}  // namespace
