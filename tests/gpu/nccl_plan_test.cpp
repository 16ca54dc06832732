// Proves what NCCL is told before it runs: its environment, the splits of a world, and the operations of
// a call.

#include <algorithm>
#include <gtest/gtest.h>
#include <numeric>
#include <rapidcheck/gtest.h>
#include <tuple>

#include "gpu/nccl/nccl_options.h"
#include "gpu/nccl/nccl_splits.h"
#include "gpu/nccl/nccl_steps.h"
#include "sim/base/error.h"
#include "sim/cpu/cpu_device.h"
#include "sim/tensor/ops.h"
#include "tests/support/enumerated_layout.h"
#include "tests/support/layout_generator.h"

namespace {

using namespace sim;
using gpu::NcclOperation;
using gpu::NcclOrder;

template <typename Work>
std::string refused(const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.refusal().code;
  }
  return "";
}

std::string value(const gpu::NcclEnvironment& environment, const char* name) {
  const auto found = environment.find(name);
  return found == environment.end() ? "not set" : found->second.value_or("absent");
}

TEST(NcclOptions, ExactAsksForOneRing) {
  const auto exact = gpu::nccl_environment({}, 3, 22'809);
  for (const auto& [name, wanted] :
       std::vector<std::pair<const char*, const char*>>{{"NCCL_ALGO", "Ring"},
                                                        {"NCCL_PROTO", "Simple"},
                                                        {"NCCL_MIN_NCHANNELS", "1"},
                                                        {"NCCL_MAX_NCHANNELS", "1"},
                                                        {"NCCL_NVLS_ENABLE", "0"},
                                                        {"NCCL_COLLNET_ENABLE", "0"},
                                                        {"NCCL_PAT_ENABLE", "0"},
                                                        {"NCCL_TUNER_PLUGIN", "none"},
                                                        {"NCCL_CTA_POLICY", "absent"},
                                                        {"NCCL_COMM_BLOCKING", "0"},
                                                        {"NCCL_COMM_SPLIT_SHARE_RESOURCES", "0"},
                                                        {"NCCL_RUNTIME_CONNECT", "not set"},
                                                        {"NCCL_BUFFSIZE", "4194304"},
                                                        {"NCCL_HOSTID", "not set"}}) {
    EXPECT_EQ(value(exact, name), wanted) << name;
  }
  const auto any = gpu::nccl_environment({.order = NcclOrder::any}, 3, 22'809);
  EXPECT_EQ(value(any, "NCCL_ALGO"), "not set");
  EXPECT_EQ(value(any, "NCCL_COMM_BLOCKING"), "0");
  EXPECT_EQ(value(any, "NCCL_RUNTIME_CONNECT"), "0");
}

TEST(NcclOptions, RanksThatShareAGpuLookLikeHosts) {
  const gpu::NcclOptions options{.ranks_per_gpu = 4};
  const auto old = gpu::nccl_environment(options, 3, 22'809);
  EXPECT_EQ(value(old, "NCCL_HOSTID"), "rank-3");
  EXPECT_EQ(value(old, "NCCL_NET"), "Socket");
  EXPECT_EQ(value(old, "NCCL_SOCKET_IFNAME"), "=lo");
  EXPECT_EQ(value(old, "NCCL_MULTI_RANK_GPU_ENABLE"), "not set");
  const auto late = gpu::nccl_environment(options, 3, gpu::kNcclSharesGpus);
  EXPECT_EQ(value(late, "NCCL_HOSTID"), "not set");
  EXPECT_EQ(value(late, "NCCL_MULTI_RANK_GPU_ENABLE"), "1");
}

/// The environment is the same on all ranks but for the name of the host, which differs on each.
RC_GTEST_PROP(NcclOptions, RanksDifferInTheirHostAlone, ()) {
  const gpu::NcclOptions options{.order = *rc::gen::element(NcclOrder::exact, NcclOrder::any),
                                 .ranks_per_gpu = *rc::gen::inRange(1, 9)};
  const int version = *rc::gen::element(22'809, 23'000, 23'007);
  const int a = *rc::gen::inRange(0, 100);
  const int b = a + *rc::gen::inRange(1, 100);
  auto first = gpu::nccl_environment(options, a, version);
  auto second = gpu::nccl_environment(options, b, version);
  const bool needs_hosts = options.ranks_per_gpu > 1 && version < 23'000;
  RC_ASSERT(first.contains("NCCL_HOSTID") == needs_hosts);
  RC_ASSERT((first == second) == !needs_hosts);
  first.erase("NCCL_HOSTID");
  second.erase("NCCL_HOSTID");
  RC_ASSERT(first == second);
}

TEST(NcclOptions, AreRefused) {
  EXPECT_EQ(refused([] { gpu::check({.ranks_per_gpu = 0}); }), "nccl_options");
  EXPECT_EQ(refused([] { gpu::check({.deadline = std::chrono::milliseconds(0)}); }), "nccl_options");
  EXPECT_EQ(refused([] { gpu::check({}); }), "");
}

/// Returns the groups that ncclCommSplit makes of the colors and keys, by ascending color.
test::Lists made_by(const gpu::NcclSplit& split) {
  std::vector<std::tuple<int, int, int>> order;  // (color, key, rank)
  for (std::size_t rank = 0; rank < split.colors.size(); ++rank) {
    if (split.colors[rank] >= 0)
      order.emplace_back(split.colors[rank], split.keys[rank], static_cast<int>(rank));
  }
  std::sort(order.begin(), order.end());
  test::Lists lists;
  int color = -1;
  for (const auto& [of, key, rank] : order) {
    if (of != color) lists.emplace_back();
    color = of;
    lists.back().push_back(rank);
  }
  return lists;
}

/// Returns "" if the splits make every group of more than one rank once, in order, and else the first
/// kind that is wrong.
std::string missing(const std::vector<gpu::NcclSplit>& splits, const test::EnumeratedLayout& expected) {
  std::size_t next = 0;
  for (const auto& [kind, lists] : expected.kinds) {
    if (lists.front().size() == 1) continue;
    if (next == splits.size() || splits[next].kind != kind) return kind;
    if (made_by(splits[next++]) != lists) return kind;
  }
  return next == splits.size() ? "" : splits[next].kind;
}

RC_GTEST_PROP(NcclSplits, MakeEveryGroupOnceInOrder, ()) {
  ParallelSizes sizes = *test::accepted_megatron_sizes();
  sizes.rank_offset = 0;
  const auto expected = test::enumerate_megatron(sizes);
  RC_PRE(expected.has_value());
  const Layout layout = make_layout(sizes, RuleBook::megatron);
  std::vector<gpu::NcclSplit> splits = gpu::nccl_splits(layout);
  RC_ASSERT(missing(splits, *expected) == "");
  if (splits.empty()) return;
  // The planted defects are two members that change places, a rank that is left out, and a kind that is
  // left out.
  const std::vector<int> group = made_by(splits.front()).front();
  auto swapped = splits;
  std::swap(swapped.front().keys[static_cast<std::size_t>(group[0])],
            swapped.front().keys[static_cast<std::size_t>(group[1])]);
  RC_ASSERT(missing(swapped, *expected) != "");
  auto left_out = splits;
  left_out.back().colors[static_cast<std::size_t>(made_by(splits.back()).front().front())] = gpu::kNoColor;
  RC_ASSERT(missing(left_out, *expected) != "");
  auto fewer = splits;
  fewer.pop_back();
  RC_ASSERT(missing(fewer, *expected) != "");
}

TEST(NcclSteps, AreWhatTheManualSays) {
  const auto shared = std::make_shared<CpuDevice>();
  const auto tensor = [&](std::int64_t count) { return filled(*shared, DType::f32, {count}, 0); };
  const gpu::NcclSpot none;
  const auto in = [](std::int64_t at) { return gpu::NcclSpot{gpu::NcclBuffer::input, at}; };
  const auto out = [](std::int64_t at) { return gpu::NcclSpot{gpu::NcclBuffer::output, at}; };
  using Steps = std::vector<gpu::NcclStep>;
  Call exchange(Operation::all_to_all, "s");
  exchange.input = tensor(6);
  exchange.output = tensor(6);
  exchange.count = 2;
  EXPECT_EQ(gpu::nccl_steps(exchange, 3, 1), (Steps{{NcclOperation::send, in(0), none, 2, 0},
                                                    {NcclOperation::recv, none, out(0), 2, 0},
                                                    {NcclOperation::copy, in(2), out(2), 2},
                                                    {NcclOperation::send, in(4), none, 2, 2},
                                                    {NcclOperation::recv, none, out(4), 2, 2}}));
  Call gather(Operation::gather, "s");
  gather.input = tensor(2);
  gather.root = 2;
  gather.count = 2;
  EXPECT_EQ(gpu::nccl_steps(gather, 3, 0), (Steps{{NcclOperation::send, in(0), none, 2, 2}}));
  Call broadcast(Operation::broadcast, "s");
  broadcast.input = tensor(5);
  broadcast.root = 0;
  broadcast.count = 5;
  EXPECT_EQ(gpu::nccl_steps(broadcast, 2, 0), (Steps{{NcclOperation::broadcast, in(0), in(0), 5, 0}}));
  Call empty(Operation::all_reduce, "s");
  empty.count = 0;
  EXPECT_EQ(gpu::nccl_steps(empty, 2, 0), Steps{});
  Call uneven(Operation::all_to_all_uneven, "s");
  uneven.input = tensor(9).reshaped({3, 3});
  uneven.output = tensor(6).reshaped({2, 3});
  uneven.rare = sim::RareArguments{.send_rows = {0, 3}, .receive_rows = {2, 0}};
  uneven.count = 9;
  EXPECT_EQ(gpu::nccl_steps(uneven, 2, 0), (Steps{{NcclOperation::send, in(0), none, 9, 1}}));
}

}  // namespace
