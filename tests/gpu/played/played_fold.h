#pragma once

/// The arithmetic of a played NCCL: reductions as left folds, element by element, in the order of a ring from
/// each place to the next.
///
/// Shapes  `members` holds the requests of a reduction's members, by place. `to` is the place that gets the
///         result, which is its block in a reduce_scatter.
/// Exact   It is written from NCCL's description and shares nothing with sim/comm/reduction_order. With
///         `by_rank`, the ring starts at place 0 for every element.

#include <vector>

#include "gpu/nccl/nccl_library.h"

namespace test {

void play_fold(const std::vector<const gpu::NcclRequest*>& members, int to, bool by_rank);

}  // namespace test
