#pragma once

/// A world of virtual ranks, as it is asked for.
///
/// Exact   schedule, threads and contexts never change a result; reduction_order and eager_bytes may.
/// Errors  world_spec, when a number is out of range.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sim/comm/reduction_order.h"
#include "sim/fibers/context.h"
#include "sim/fibers/stack_pool.h"
#include "sim/layout/layout.h"
#include "sim/layout/node_placement.h"
#include "sim/world/scheduler.h"

namespace sim {

struct WorldSpec {
  Layout layout;
  NodePlacement nodes = {};
  std::vector<int> ranks = {};  // global ranks that run, ascending; empty: the layout's grid
  Schedule schedule = {};
  int threads = 1;  // that run ranks
  ContextKind contexts = ContextKind::fiber;
  ReductionOrder reduction_order = {};
  std::int64_t eager_bytes = 0;  // a send of at most so many bytes does not wait for its recv
  std::size_t stack_bytes = kDefaultStackBytes;
  std::shared_ptr<StackPool> stacks =
      nullptr;                          // of earlier worlds, for many small ones; null: this world's own
  std::uint64_t seed = 0;               // of Rank::random
  std::int64_t call_limit = 1'000'000;  // calls of one rank
  std::string reproduce = "";  // the line that makes it happen again; empty: the fields above, in words
};

/// Guarded stacks are two mappings each, and a process has about 65,000.
inline constexpr int kMostGuardedRanks = 16'384;

/// Systems give a process some 30,000 threads.
inline constexpr int kMostThreadRanks = 8192;

/// So many ranks in one data-parallel group.
WorldSpec world_of(int ranks);

/// The spec in words: "8 ranks, schedule uniform seed 7, 1 thread, ...".
std::string text_of(const WorldSpec& spec);

/// Refuses numbers that make no world.
void check(const WorldSpec& spec);

}  // namespace sim
