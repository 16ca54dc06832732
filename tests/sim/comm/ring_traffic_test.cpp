// Proves that bytes on the wire equal those of the algorithm played step by step, and that the ledger
// adds up the calls of each rank.

#include "sim/comm/ring_traffic.h"

#include <algorithm>
#include <cstdint>
#include <gtest/gtest.h>
#include <map>
#include <numeric>
#include <rapidcheck/gtest.h>
#include <set>
#include <utility>
#include <vector>

#include "sim/cpu/cpu_device.h"
#include "sim/world/simulate.h"
#include "tests/support/drawn_scalars.h"

namespace {

using namespace sim;

/// The elements sent over each link, which is named by (from place, to place).
using Links = std::map<std::pair<int, int>, std::int64_t>;

int wrapped(int place, int n) { return ((place % n) + n) % n; }

std::int64_t chunk_size(std::int64_t count, int n, int chunk) {
  std::int64_t size = 0;
  for (std::int64_t element = 0; element < count; ++element) size += element % n == chunk ? 1 : 0;
  return size;
}

/// Plays an all_reduce and tracks which members' terms each rank has of each chunk. Fails if a term is
/// missing at the end.
Links played_all_reduce(int n, std::int64_t count) {
  std::vector<std::vector<std::set<int>>> terms(static_cast<std::size_t>(n));
  for (int rank = 0; rank < n; ++rank)
    terms[static_cast<std::size_t>(rank)].assign(static_cast<std::size_t>(n), {rank});
  Links links;
  for (int step = 0; step < 2 * (n - 1); ++step) {
    const auto before = terms;
    for (int rank = 0; rank < n; ++rank) {
      const int next = wrapped(rank + 1, n);
      const auto chunk = static_cast<std::size_t>(wrapped(rank - 1 - step, n));
      terms[static_cast<std::size_t>(next)][chunk].insert(
          before[static_cast<std::size_t>(rank)][chunk].begin(),
          before[static_cast<std::size_t>(rank)][chunk].end());
      links[{rank, next}] += chunk_size(count, n, static_cast<int>(chunk));
    }
  }
  for (const auto& rank : terms) {
    for (const std::set<int>& chunk : rank) RC_ASSERT(std::ssize(chunk) == n);
  }
  return links;
}

/// Plays a call. What all members get goes by hops around the ring, and what one member gets goes
/// straight to it.
Links played(const Call& call, int n, const std::vector<std::vector<std::int64_t>>& rows,
             std::int64_t row_count) {
  Links links;
  if (call.operation == Operation::all_reduce) return played_all_reduce(n, call.count);
  for (int step = 0; step < n - 1; ++step) {
    for (int rank = 0; rank < n; ++rank) {
      const int next = wrapped(rank + 1, n);
      const bool all = call.operation == Operation::all_gather || call.operation == Operation::reduce_scatter;
      const bool from_root = call.operation == Operation::broadcast && rank == wrapped(call.root + step, n);
      const bool to_root = call.operation == Operation::reduce && rank == wrapped(call.root + 1 + step, n);
      if (all || from_root || to_root) links[{rank, next}] += call.count;
    }
  }
  for (int from = 0; from < n; ++from) {
    for (int to = 0; to < n; ++to) {
      if (from == to) continue;
      const bool straight = call.operation == Operation::all_to_all ||
                            (call.operation == Operation::gather && to == call.root) ||
                            (call.operation == Operation::scatter && from == call.root);
      if (straight) links[{from, to}] += call.count;
      if (call.operation == Operation::all_to_all_uneven) {
        links[{from, to}] += rows[static_cast<std::size_t>(from)][static_cast<std::size_t>(to)] * row_count;
      }
    }
  }
  return links;
}

RC_GTEST_PROP(RingTraffic, IsWhatTheAlgorithmSendsStepByStep, ()) {
  CpuDevice device;
  const int n = *rc::gen::inRange(2, 9);
  std::vector<int> ranks(32);
  std::iota(ranks.begin(), ranks.end(), 0);
  for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
    std::swap(ranks[i], ranks[*rc::gen::inRange<std::size_t>(i, ranks.size())]);
  }
  ranks.resize(static_cast<std::size_t>(n));
  const ProcessGroup group{"any", 0, ranks, *rc::gen::element(1, 2, 4, 8, 32)};
  Call call(static_cast<Operation>(*rc::gen::inRange(0, 9)), "x");
  call.count = *rc::gen::inRange<std::int64_t>(0, 40);
  call.dtype = test::any_dtype();
  call.root = *rc::gen::inRange(0, n);
  const std::int64_t row_count = *rc::gen::inRange(1, 5);
  call.input = device.empty(call.dtype, {1, row_count});
  std::vector<std::vector<std::int64_t>> rows(static_cast<std::size_t>(n));
  for (auto& of_rank : rows) {
    for (int to = 0; to < n; ++to) of_rank.push_back(*rc::gen::inRange(0, 5));
  }
  const Links links = played(call, n, rows, row_count);
  for (int place = 0; place < n; ++place) {
    call.rare = RareArguments{.send_rows = rows[static_cast<std::size_t>(place)]};
    std::int64_t inside = 0;
    std::int64_t across = 0;
    for (const auto& [link, elements] : links) {
      if (link.first != place) continue;
      const auto node = [&](int p) { return ranks[static_cast<std::size_t>(p)] / group.gpus_per_node; };
      (node(link.first) == node(link.second) ? inside : across) += elements * size_of(call.dtype);
    }
    const Traffic traffic = traffic_of(call, group, place);
    RC_ASSERT(traffic.bytes_inside == inside);
    RC_ASSERT(traffic.bytes_across == across);
  }
}

RC_GTEST_PROP(RingTraffic, OfASendIsTheMessageAndOfARecvNothing, ()) {
  const ProcessGroup group{"pp", 0, {3, 5, 9}, 8};
  Call call(Operation::send, "x");
  call.peer = *rc::gen::inRange(1, 3);
  call.count = *rc::gen::inRange<std::int64_t>(0, 40);
  call.dtype = test::any_dtype();
  const std::int64_t bytes = call.count * size_of(call.dtype);
  const Traffic sent = traffic_of(call, group, 0);
  RC_ASSERT(sent.bytes_inside == (call.peer == 1 ? bytes : 0));
  RC_ASSERT(sent.bytes_across == (call.peer == 2 ? bytes : 0));
  call.operation = Operation::recv;
  const Traffic received = traffic_of(call, group, 0);
  RC_ASSERT(received.bytes_inside + received.bytes_across == 0);
}

// The world has two nodes of two GPUs, so its ring crosses between nodes twice.
TEST(Ledger, AddsUpCallsElementsAndBytesByKindSiteOperationAndDtype) {
  CpuDevice device;
  WorldSpec spec = world_of(4);
  spec.nodes.gpus_per_node = 2;
  const RunReport report = simulate(spec, device, [](Rank& rank) {
    Communicator& world = rank.groups.world();
    Communicator* pair = rank.groups.new_group("pair", {0, 1}, "c");
    if (pair != nullptr) pair->all_reduce(filled(rank.device, DType::f32, {8}, 1), ReduceOp::sum, "a");
    for (int step = 0; step < 3; ++step) {
      world.all_reduce(filled(rank.device, DType::f32, {8}, 1), ReduceOp::sum, "a");
    }
    world.all_reduce(filled(rank.device, DType::f64, {4}, 1), ReduceOp::sum, "a");
    world.broadcast(filled(rank.device, DType::f64, {5}, 1), 0, "a");
    const Tensor mail = filled(rank.device, DType::bf16, {7}, 1);
    if (rank.id == 1) world.send(mail, 2, "b");
    if (rank.id == 2) world.recv(mail, 1, "b");
    const auto half = world.split(rank.id / 2, 0, "d");
    half->barrier("e");
  });
  ASSERT_TRUE(report.ok()) << report.failure();
  // Eight f32 in four chunks of 2: each rank sends 2 * (8 - 2) elements, which is 48 bytes. Ranks 1 and
  // 3 send to the other node.
  const auto row = [](const char* kind, const char* site, Operation operation, DType dtype,
                      std::int64_t ranks, std::int64_t calls, std::int64_t elements, std::int64_t inside,
                      std::int64_t across, std::int64_t most) {
    return LedgerRow{kind, site, operation, dtype, ranks, calls, elements, inside, across, most};
  };
  const std::vector<LedgerRow> expected = {
      row("pair", "a", Operation::all_reduce, DType::f32, 2, 2, 16, 64, 0, 32),
      row("world", "a", Operation::all_reduce, DType::f64, 4, 4, 16, 96, 96, 48),
      row("world", "a", Operation::all_reduce, DType::f32, 4, 12, 96, 288, 288, 144),
      row("world", "a", Operation::broadcast, DType::f64, 4, 4, 20, 80, 40, 40),
      row("world", "b", Operation::send, DType::bf16, 1, 1, 7, 0, 14, 14),
      row("world", "b", Operation::recv, DType::bf16, 1, 1, 7, 0, 0, 0),
      row("world", "c", Operation::new_group, DType::f64, 4, 4, 0, 0, 0, 0),
      row("world", "d", Operation::split, DType::f64, 4, 4, 0, 0, 0, 0),
      row("world[0].split6", "e", Operation::barrier, DType::f64, 4, 4, 0, 0, 0, 0),
  };
  ASSERT_EQ(report.ledger.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const LedgerRow& is = report.ledger[i];
    EXPECT_EQ(is, expected[i]) << is.kind << " " << is.site << " " << name_of(is.operation) << " ranks "
                               << is.ranks << " calls " << is.calls << " elements " << is.elements
                               << " inside " << is.bytes_inside << " across " << is.bytes_across << " most "
                               << is.most_bytes;
  }
}

}  // namespace
