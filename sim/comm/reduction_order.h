#pragma once

/// The order in which a reduction combines the members of a group. Every result is a left fold
/// s = x[o0]; s = s op x[o1]; ... that is rounded to the dtype at every step. The orders differ in the
/// sequence of the members o0, o1, ...:
///
///   rank_order      0, 1, 2, ...
///   nccl_ring       the order of NCCL's ring kernels with one channel and the Simple protocol. all_reduce:
///                   c + 1, c + 2, ..., c for the chunk that place c finishes; reduce_scatter: d + 1, ..., d
///                   for the block of place d; reduce: root + 1, ..., root
///   shuffled(seed)  a random order for each call. It finds programs whose verdict depends on the order
///
/// Shapes  a plan has the members in a base order, and segments of elements. Each segment starts its fold at
///         its own position of the base order (device.h).
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
  std::uint64_t seed = 0;  // used by shuffled only
};

struct FoldPlan {
  std::vector<int> base;              // places in the group; empty means 0, 1, 2, ...
  std::vector<FoldSegment> segments;  // FoldSegment::first is a position in base
};

/// Returns the plan for the `count` elements of a call. For a reduce_scatter or reduce, `finisher` is the
/// place that gets the result; an all_reduce does not use it.
FoldPlan fold_plan(const ReductionOrder& order, const Call& call, const ProcessGroup& group, int finisher);

}  // namespace sim
