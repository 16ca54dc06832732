// Proves what rank programs compute on virtual ranks, that the schedule never changes a result, and that
// a run that fails ends cleanly.

#include "sim/world/simulate.h"

#include <algorithm>
#include <cstring>
#include <gtest/gtest.h>
#include <map>
#include <rapidcheck/gtest.h>
#include <stdexcept>
#include <string>
#include <vector>

#include "sim/cpu/cpu_device.h"

namespace {

using namespace sim;

std::vector<float> floats(const Published& tensor) {
  std::vector<float> values(tensor.values.size() / sizeof(float));
  std::memcpy(values.data(), tensor.values.data(), tensor.values.size());
  return values;
}

void sum_ids(Rank& rank) {
  const Tensor x = filled(rank.device, DType::f32, {3}, rank.id + 1.0);
  rank.groups.world().all_reduce(x, ReduceOp::sum, "sum");
  rank.publish("x", x);
}

TEST(Simulate, AllReduceAddsUp) {
  CpuDevice device;
  const RunReport report = simulate(world_of(4), device, sum_ids);
  ASSERT_TRUE(report.ok()) << report.failure();
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(floats(*report.find(rank, "x")), (std::vector<float>{10, 10, 10}));
  }
}

RC_GTEST_PROP(Simulate, FindsTheFirstOfAName, ()) {
  const auto names = *rc::gen::container<std::vector<std::string>>(
      rc::gen::container<std::string>(rc::gen::element('a', 'b')));
  CpuDevice device;
  const RunReport report = simulate(world_of(2), device, [&](Rank& rank) {
    for (std::size_t i = 0; i < names.size(); ++i)
      rank.publish(names[i], filled(rank.device, DType::f32, {1}, static_cast<double>(i)));
  });
  std::map<std::string, float> first;
  for (std::size_t i = 0; i < names.size(); ++i) first.emplace(names[i], static_cast<float>(i));
  for (const auto& [name, value] : first) {
    RC_ASSERT(report.find(1, name) != nullptr);
    RC_ASSERT(floats(*report.find(1, name)) == std::vector<float>{value});
    RC_ASSERT((report.find(1, name + "a") == nullptr) == (first.count(name + "a") == 0));
  }
  RC_ASSERT(report.find(1, "c") == nullptr);
  RC_ASSERT(report.find(2, "a") == nullptr);
}

TEST(Simulate, Threads) {
  CpuDevice device;
  WorldSpec spec = world_of(4);
  spec.threads = 2;
  const RunReport two = simulate(spec, device, sum_ids);
  spec.contexts = ContextKind::thread;
  const RunReport threads = simulate(spec, device, sum_ids);
  EXPECT_EQ(two.run_hash, threads.run_hash);
}

TEST(Simulate, Deadlock) {
  CpuDevice device;
  const auto program = [](Rank& rank) {
    const Tensor x = filled(rank.device, DType::f32, {3}, 1);
    rank.groups.world().send(x, 1 - rank.id, "exchange");
    rank.groups.world().recv(x, 1 - rank.id, "exchange");
  };
  const RunReport report = simulate(world_of(2), device, program);
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.findings[0].code, "deadlock");
  WorldSpec eager = world_of(2);
  eager.eager_bytes = 12;
  EXPECT_TRUE(simulate(eager, device, program).ok());
}

// A message carries what the buffer held at the time of the send, however late the receive is.
TEST(Simulate, AnEagerSendLeavesItsBufferToItsRank) {
  CpuDevice device;
  WorldSpec spec = world_of(2);
  spec.eager_bytes = 12;
  const RunReport report = simulate(spec, device, [](Rank& rank) {
    Tensor x = filled(rank.device, DType::f32, {3}, 1);
    if (rank.id == 0) {
      rank.groups.world().send(x, 1, "mail");
      fill(x, 2);
    }
    rank.groups.world().barrier("later");
    if (rank.id == 1) rank.groups.world().recv(x = filled(rank.device, DType::f32, {3}, 0), 0, "mail");
    rank.publish("x", x);
  });
  ASSERT_TRUE(report.ok()) << report.failure();
  EXPECT_EQ(floats(*report.find(1, "x")), (std::vector<float>{1, 1, 1}));
}

// The tensors are so large that a reduction is done in several parts, and their sizes do not divide evenly.
TEST(Simulate, LargeReductionsAreTheSameInParts) {
  CpuDevice device;
  WorldSpec spec = world_of(3);
  const auto program = [](Rank& rank) {
    const KeyedRandom random = rank.random.named("x");
    const auto own = [&](std::int64_t count) {
      return keyed(rank.device, DType::f32, {count}, random, rank.id * count);
    };
    const Tensor all = own(300'001);
    const Tensor reduced = own(300'001);
    const Tensor block = own(300'001);
    rank.groups.world().all_reduce(all, ReduceOp::sum, "x");
    rank.groups.world().reduce(reduced, ReduceOp::sum, 1, "x");
    rank.groups.world().reduce_scatter(own(900'003), block, ReduceOp::sum, "x");
    for (const Tensor& x : {all, reduced, block}) rank.publish("x", x);
  };
  const RunReport whole = simulate(spec, device, program);
  ASSERT_TRUE(whole.ok()) << whole.failure();
  spec.threads = 2;
  EXPECT_EQ(simulate(spec, device, program).run_hash, whole.run_hash);
}

TEST(Simulate, Throws) {
  CpuDevice device;
  const RunReport report = simulate(world_of(3), device, [](Rank& rank) {
    rank.groups.world().barrier("one");
    if (rank.id == 1) throw std::runtime_error("boom");
    rank.groups.world().barrier("two");
  });
  ASSERT_EQ(report.findings.size(), 1U);
  EXPECT_EQ(report.findings[0].code, "rank_threw");
}

// Ranks outside a group may each make one of themselves in the same call. A member of it may not.
RC_GTEST_PROP(Simulate, RanksOutsideAGroupMakeTheirOwn, ()) {
  CpuDevice device;
  std::vector<int> members;
  for (int rank = 0; rank < 4; ++rank)
    if (*rc::gen::arbitrary<bool>()) members.push_back(rank);
  const int odd = *rc::gen::element(-1, 0, 1, 2, 3);
  const RunReport report = simulate(world_of(4), device, [&](Rank& rank) {
    const bool is_member = std::ranges::find(members, rank.id) != members.end();
    const bool is_alone = !is_member || rank.id == odd;
    Communicator* group = rank.groups.new_group("some", is_alone ? std::vector{rank.id} : members, "group");
    const Tensor x = filled(rank.device, DType::f32, {1}, 1);
    group->all_reduce(x, ReduceOp::sum, "sum");
    rank.publish("x", x);
  });
  if (members.size() > 1 && std::ranges::find(members, odd) != members.end()) {
    RC_ASSERT(report.findings.front().code == std::string("group_order_mismatch"));
    return;
  }
  RC_ASSERT(report.ok());
  for (int rank = 0; rank < 4; ++rank) {
    const bool is_member = std::ranges::find(members, rank) != members.end();
    RC_ASSERT(floats(*report.find(rank, "x")).front() ==
              (is_member ? static_cast<float>(members.size()) : 1.0F));
  }
}

// ---- warnings: what a report tells of a run that succeeded

/// Two equal calls, which rank 1 makes in the order that `swaps` says.
RunReport two_calls(bool swaps) {
  CpuDevice device;
  return simulate(world_of(2), device, [&](Rank& rank) {
    Communicator& dp = rank.groups.get("dp");
    const Tensor loss = filled(rank.device, DType::f32, {1}, 1),
                 tokens = filled(rank.device, DType::f32, {1}, 2);
    if (swaps && rank.id == 1) dp.all_reduce(tokens, ReduceOp::sum, "metrics.tokens");
    dp.all_reduce(loss, ReduceOp::sum, "metrics.loss");
    if (!swaps || rank.id == 0) dp.all_reduce(tokens, ReduceOp::sum, "metrics.tokens");
  });
}

TEST(Simulate, EqualCallsThatMeetInOppositeOrdersAreAWarning) {
  const RunReport crossed = two_calls(true);
  ASSERT_EQ(crossed.warnings.size(), 2U);  // each of the two lines of the tokens
  const Finding& warning = crossed.warnings.front();
  EXPECT_EQ(warning.code, "other_lines");
  ASSERT_EQ(warning.calls.size(), 2U);
  EXPECT_EQ(warning.calls[0].site, "metrics.loss");
  EXPECT_EQ(warning.calls[1].site, "metrics.tokens");
  EXPECT_TRUE(two_calls(false).warnings.empty());
}

TEST(Simulate, CallsThatCrossAtTwoLinesAreToldTogether) {
  CpuDevice device;
  const RunReport report = simulate(world_of(2), device, [](Rank& rank) {
    Communicator& dp = rank.groups.get("dp");
    const Tensor x = filled(rank.device, DType::f32, {1}, 1);
    const auto loss = [&] { dp.all_reduce(x, ReduceOp::sum, "loss"); };
    const auto tokens = [&] { dp.all_reduce(x, ReduceOp::sum, "tokens"); };
    if (rank.id == 0) loss(), tokens();
    if (rank.id == 1) tokens(), loss();
  });
  ASSERT_EQ(report.warnings.size(), 1U);
  EXPECT_EQ(report.warnings.front().sentence,
            "members of dp make calls 0 and 1 at the same two lines, in opposite orders");
}

TEST(Simulate, ARefusalThatAProgramCatchesIsAWarning) {
  CpuDevice device;
  const auto run = [&](bool catches) {
    return simulate(world_of(3), device, [&](Rank& rank) {
      try {
        if (rank.id > 0 && catches)
          rank.groups.world().broadcast(filled(rank.device, DType::f32, {1}, 0), 9, "far");
      } catch (const std::exception&) {
      }
      rank.groups.world().barrier("end");
    });
  };
  const RunReport report = run(true);
  EXPECT_TRUE(report.ok()) << report.failure();
  ASSERT_EQ(report.warnings.size(), 1U);
  EXPECT_EQ(report.warnings.front().code, "caught_refusal");
  EXPECT_EQ(
      report.warnings.front().sentence.find("ranks 1, 2 went on after a refusal of the code call_root: "), 0U)
      << report.warnings.front().sentence;
  EXPECT_TRUE(run(false).warnings.empty());
}

TEST(Simulate, ALongTextOfAnExceptionIsCut) {
  CpuDevice device;
  const RunReport report = simulate(
      world_of(1), device, [](Rank&) { throw std::runtime_error(std::string(std::size_t{10} << 20, 'x')); });
  const std::string& sentence = report.findings.front().sentence;
  EXPECT_LT(sentence.size(), std::size_t{65} << 10);
  EXPECT_TRUE(sentence.ends_with("x ... (10420224 more bytes)")) << sentence.substr(sentence.size() - 40);
}

}  // namespace
