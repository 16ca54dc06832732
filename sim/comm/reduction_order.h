#pragma once

/// The order in which a group's reduction adds its members up. Every result is a left fold s = x[o0]; s = s
/// op x[o1]; ... rounded to the dtype at every step; the orders differ in which member comes when:
///
///   rank_order      0, 1, 2, ...
///   nccl_ring       as NCCL's ring kernels with one channel and the Simple protocol. all_reduce: the chunk
///                   that place c finishes goes c + 1, c + 2, ..., c; reduce_scatter: the block of place d
///                   goes d + 1, ..., d; reduce: root + 1, ..., root
///   shuffled(seed)  a random order for each call: to find programs whose verdict hangs on the order
///
/// Shapes  a plan: the members in a base order, and segments of elements that start at another place of it
///         (device.h).
/// Source  NCCL 2.28.9 all_reduce.h, reduce_scatter.h, reduce.h; enqueue.cc for the chunk of 2 MiB.

#include <cstdint>
#include <vector>

#include "sim/base/keyed_random.h"
#include "sim/comm/call.h"
#include "sim/tensor/device.h"

namespace sim {

enum class ReductionOrderKind { rank_order, nccl_ring, shuffled };

struct ReductionOrder {
  ReductionOrderKind kind = ReductionOrderKind::rank_order;
  std::uint64_t seed = 0;  // of shuffled
};

struct FoldPlan {
  std::vector<int> base;              // places; empty: 0, 1, 2, ...
  std::vector<FoldSegment> segments;  // first: position in base
};

/// The plan for `count` elements of a call of a group of n. `finisher`: the place the result is for, of a
/// reduce_scatter or reduce; unused for an all_reduce.
FoldPlan fold_plan(const ReductionOrder& order, const Call& call, const ProcessGroup& group, int finisher);

}  // namespace sim
