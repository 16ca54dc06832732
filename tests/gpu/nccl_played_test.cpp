// Proves that the NCCL communicator, on a NCCL that this process plays, gives the bits and records of
// virtual ranks, and that planted differences are found.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <tuple>

#include "gpu/device/refusals.h"
#include "sim/base/error.h"
#include "sim/cpu/cpu_device.h"
#include "sim/world/simulate.h"
#include "tests/gpu/nccl_dtypes.h"
#include "tests/gpu/played/played_nccl.h"
#include "verify/backends/random_calls.h"
#include "verify/backends/rank_comparison.h"

namespace {

using namespace sim;
using Outcomes = std::vector<test::PlayedNccl::Outcome>;

constexpr std::chrono::seconds kPatient{60};
constexpr std::chrono::milliseconds kImpatient{150};

Layout layout_of(int tp, int cp, int pp, int dp) {
  return make_layout({.world_size = tp * cp * pp * dp,
                      .tensor_model_parallel_size = tp,
                      .pipeline_model_parallel_size = pp,
                      .context_parallel_size = cp},
                     RuleBook::megatron);
}

RunReport simulated(const Layout& layout, const RankProgram& program) {
  WorldSpec spec = world_of(1);
  spec.layout = layout;
  spec.reduction_order.kind = ReductionOrderKind::nccl_ring;
  CpuDevice device;
  return simulate(spec, device, program);
}

/// Returns "" if all ranks did what virtual ranks do.
std::string difference(const RunReport& expected, const Outcomes& found) {
  for (std::size_t rank = 0; rank < found.size(); ++rank) {
    if (!found[rank].refused.empty()) return found[rank].refused + ": " + found[rank].words;
    const std::string differs =
        verify::compare_ranks(expected.ranks[rank], found[rank].report, "nccl").difference;
    if (!differs.empty()) return differs;
  }
  return "";
}

RC_GTEST_PROP(PlayedNccl, GivesTheBitsOfVirtualRanks, ()) {
  using Sizes = std::tuple<int, int, int, int>;
  const auto [tp, cp, pp, dp] = *rc::gen::elementOf(std::vector<Sizes>{{1, 1, 1, 1},
                                                                       {2, 1, 1, 1},
                                                                       {1, 1, 1, 3},
                                                                       {2, 1, 2, 1},
                                                                       {1, 1, 4, 1},
                                                                       {1, 5, 1, 1},
                                                                       {3, 1, 1, 2},
                                                                       {2, 2, 2, 1}});
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  const int steps = *rc::gen::inRange(1, 60);
  const Layout layout = layout_of(tp, cp, pp, dp);
  const RankProgram program = [&](Rank& rank) {
    verify::random_calls(rank, {.seed = seed, .steps = steps, .dtypes = test::kNcclDTypes});
  };
  const RunReport expected = simulated(layout, program);
  if (!expected.ok()) RC_FAIL(expected.failure());
  test::PlayedNccl nccl;
  RC_ASSERT(difference(expected, nccl.run(layout, {.deadline = kPatient}, program)) == "");
  RC_ASSERT(nccl.lonely() == 0);
}

/// A program for three ranks: one all_to_all, then a sum.
void little(Rank& rank) {
  const Tensor x = keyed(rank.device, DType::f32, {30}, rank.random, rank.id * 100);
  const Tensor y = filled(rank.device, DType::f32, {30}, 0);
  rank.groups.world().all_to_all(x, y, "little.all_to_all");
  rank.publish("y", y);
  rank.groups.world().all_reduce(x, ReduceOp::average, "little.all_reduce");
  rank.publish("x", x);
}

/// Returns the difference that a fault makes in the requests of rank 1 with the given operation and count.
std::string with_fault(gpu::NcclOperation operation, std::int64_t count,
                       const std::function<void(std::vector<gpu::NcclRequest>&, std::size_t)>& plant) {
  const Layout layout = layout_of(1, 1, 1, 3);
  const RunReport expected = simulated(layout, little);
  EXPECT_TRUE(expected.ok());
  test::PlayedNccl nccl({.requests = [&](int rank, std::vector<gpu::NcclRequest>& requests) {
    for (std::size_t i = 0; rank == 1 && i < requests.size(); ++i) {
      if (requests[i].operation != operation || requests[i].count != count) continue;
      return plant(requests, i);
    }
  }});
  return difference(expected, nccl.run(layout, {.deadline = kImpatient}, little));
}

TEST(PlayedNccl, FindsPlantedDefects) {
  using gpu::NcclOperation;
  using Requests = std::vector<gpu::NcclRequest>;
  EXPECT_EQ(with_fault(NcclOperation::broadcast, 10, [](Requests&, std::size_t) {}), "");
  EXPECT_NE(with_fault(NcclOperation::send, 10, [](Requests& all, std::size_t i) { all[i].from += 4; }), "");
  EXPECT_NE(with_fault(NcclOperation::copy, 10, [](Requests& all, std::size_t i) { all[i].from -= 4; }), "");
  EXPECT_NE(with_fault(NcclOperation::recv, 10, [](Requests& all, std::size_t i) { all[i].to += 40; }), "");
  EXPECT_NE(with_fault(NcclOperation::all_reduce, 30, [](Requests& all, std::size_t i) { all[i].from += 4; }),
            "");
  const std::string late = with_fault(NcclOperation::send, 10, [](Requests& all, std::size_t i) {
    all.erase(all.begin() + static_cast<std::ptrdiff_t>(i));
  });
  EXPECT_TRUE(late.starts_with("nccl_deadline")) << late;
  EXPECT_NE(late.find("world[0] = {0, 1, 2}, all_to_all 'little.all_to_all'"), std::string::npos) << late;
  EXPECT_TRUE(with_fault(NcclOperation::all_reduce, 30, [](Requests& all, std::size_t i) {
                all[i].count = 29;
              }).starts_with("nccl_deadline"));
}

TEST(PlayedNccl, ARankThatNeverComesEndsAll) {
  test::PlayedNccl nccl({.never_comes = 2});
  for (const auto& outcome : nccl.run(layout_of(1, 1, 1, 3), {.deadline = kImpatient}, little)) {
    EXPECT_EQ(outcome.refused, "nccl_deadline");
    EXPECT_NE(outcome.words.find("the first call of world[0]"), std::string::npos) << outcome.words;
  }
}

TEST(PlayedNccl, AnotherRingIsFoundWhenTheGroupIsMade) {
  const Layout layout = layout_of(1, 1, 1, 3);
  const auto codes = [&](gpu::NcclOrder order) {
    test::PlayedNccl nccl({.folds_by_rank = true});
    std::vector<std::string> all;
    for (const auto& outcome : nccl.run(layout, {.order = order, .deadline = kImpatient}, [](Rank&) {}))
      all.push_back(outcome.refused);
    return all;
  };
  // The block of place 2 is added in the order 0, 1, 2 in either ring.
  for (const std::string& code : codes(gpu::NcclOrder::exact)) EXPECT_EQ(code, "nccl_ring");
  EXPECT_EQ(codes(gpu::NcclOrder::any), std::vector<std::string>(3));
}

/// Returns how many messages the members of a world sent to each other before the program began, by
/// sender and receiver. There are as many as the member has groups.
std::vector<std::vector<int>> first_messages(int ranks) {
  const auto n = static_cast<std::size_t>(ranks);
  std::vector<std::vector<int>> sent(n, std::vector<int>(n, 0));
  std::vector<std::vector<int>> received = sent;
  std::vector<char> began(n, 0);
  test::PlayedNccl nccl({.requests = [&](int rank, std::vector<gpu::NcclRequest>& requests) {
    const auto at = static_cast<std::size_t>(rank);
    for (const gpu::NcclRequest& request : requests) {
      if (began[at] != 0) return;
      if (request.operation == gpu::NcclOperation::send) ++sent[at][static_cast<std::size_t>(request.peer)];
      if (request.operation == gpu::NcclOperation::recv)
        ++received[static_cast<std::size_t>(request.peer)][at];
    }
  }});
  const Outcomes outcomes = nccl.run(layout_of(1, 1, 1, ranks), {.deadline = kPatient}, [&](Rank& rank) {
    began[static_cast<std::size_t>(rank.id)] = 1;
    rank.groups.world().barrier("began");
  });
  for (const auto& outcome : outcomes) EXPECT_EQ(outcome.refused, "") << outcome.words;
  EXPECT_EQ(sent, received);
  return sent;
}

TEST(PlayedNccl, MembersMeetBeforeTheProgramBegins) {
  for (const int ranks : {2, 3, 5, 8, 18}) {
    const std::vector<std::vector<int>> messages = first_messages(ranks);
    const int groups = messages[0][1];
    EXPECT_GT(groups, 0);
    for (int from = 0; from < ranks; ++from) {
      for (int to = 0; to < ranks; ++to) {
        const int step = (to - from + ranks) % ranks;
        const bool meets = step != 0 && (ranks <= 16 || step == 1 || step == ranks - 1);
        EXPECT_EQ(messages[static_cast<std::size_t>(from)][static_cast<std::size_t>(to)], meets ? groups : 0)
            << ranks << " ranks, " << from << " to " << to;
      }
    }
  }
}

TEST(PlayedNccl, RefusesWhatItCannot) {
  const Layout layout = layout_of(1, 1, 1, 2);
  const auto refused = [&](const RankProgram& program) {
    test::PlayedNccl nccl;
    const Outcomes outcomes = nccl.run(layout, {.deadline = kImpatient}, program);
    return std::vector<std::string>{outcomes[0].refused, outcomes[1].refused};
  };
  const auto both = [](const char* code) { return std::vector<std::string>{code, code}; };
  EXPECT_EQ(refused([](Rank& rank) {
              rank.groups.world().all_reduce(filled(rank.device, DType::field, {2}, 1), ReduceOp::sum,
                                             "field");
            }),
            both("nccl_dtype"));
  EXPECT_EQ(refused([](Rank& rank) {
              rank.groups.new_group(rank.id == 0 ? "a" : "b", {0, 1}, "group");
            }),
            both("group_order_mismatch"));
  // The other rank has ended and waits for this one to close. Either of the two may be told.
  EXPECT_EQ(refused([](Rank& rank) {
              if (rank.id == 0) rank.groups.world().barrier("alone");
            })[0],
            "nccl_deadline");
}

TEST(PlayedNccl, ACallThatFailsIsRefused) {
  try {
    gpu::refuse_nccl("ncclAllReduce", "unhandled system error");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.refusal().code, "nccl_failed");
  }
  try {
    gpu::refuse_nccl("ncclCommInitRankConfig", "invalid usage: Duplicate GPU detected : rank 1 and rank 0");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.refusal().hint, "--ranks-per-gpu N, where N processes share a GPU");
  }
}

}  // namespace
