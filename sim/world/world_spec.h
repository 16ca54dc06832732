#pragma once

/// The description of a world of virtual ranks.
///
/// Exact   schedule, threads and contexts never change a result; reduction_order and eager_bytes may.
/// Errors  world_spec: a number is out of range, the schedule is unknown, or `ranks` is not a list of
///         ascending ranks of the world.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sim/comm/recorder.h"
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
  std::vector<int> ranks = {};  // the global ranks that run, ascending; empty for all ranks of the layout
  Schedule schedule = {};
  int threads = 1;  // number of threads that run ranks
  ContextKind contexts = ContextKind::fiber;
  ReductionOrder reduction_order = {};
  /// A send of at most this many bytes does not wait for its recv. With 0 every send waits.
  std::int64_t eager_bytes = 0;
  std::size_t stack_bytes = kDefaultStackBytes;
  /// A pool of stacks that earlier worlds have used, for programs that run many small worlds. If null, the
  /// world makes a pool of its own.
  std::shared_ptr<StackPool> stacks = nullptr;
  std::uint64_t seed = 0;               // seed of Rank::random
  std::int64_t call_limit = 1'000'000;  // the most calls that one rank may make, with those that are refused
  /// The number of the latest calls of a rank whose records are kept; earlier ones are added up in the ledger
  /// and in the run hash. 0: all are kept. The search for orders that may hang (call_order.h) sees only
  /// records that are kept.
  std::int64_t kept_calls = 0;
  std::int64_t publish_limit = kMostPublishedBytes;  // the most bytes that one rank may publish
  std::string reproduce;  // the line that reproduces the run; if empty, text_of() this spec
};

/// The most ranks whose stacks are guarded. A guarded stack takes two mappings, and a process may have about
/// 65,000.
inline constexpr int kMostGuardedRanks = 16'384;

/// The most ranks that may be threads. Systems give a process about 30,000 threads.
inline constexpr int kMostThreadRanks = 8192;

/// Returns a world of this many ranks, which form one data-parallel group.
WorldSpec world_of(int ranks);

/// Describes the spec: "8 ranks, seed 0, schedule uniform, schedule seed 7, 1 thread, ...".
std::string text_of(const WorldSpec& spec);

/// Refuses a spec that does not describe a world.
void check(const WorldSpec& spec);

}  // namespace sim
