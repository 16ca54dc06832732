#pragma once

/// The arithmetic of a NCCL that is played: sums as left folds in the order of a ring from each place to the
/// next, element by element.
///
/// Shapes  of a reduction's members, by place; `to` is the place that gets the result, whose block it is in a
///         reduce_scatter.
/// Exact   written from NCCL's description, with nothing of sim/comm/reduction_order. `by_rank`: a ring that
///         starts at place 0 for every element.

#include <vector>

#include "gpu/nccl/nccl_library.h"

namespace test {

void play_fold(const std::vector<const gpu::NcclRequest*>& members, int to, bool by_rank);

}  // namespace test
