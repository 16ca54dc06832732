#pragma once

/// The order string: axes joined by '-', fastest varying first, such as "tp-cp-ep-dp-pp".
///
/// Errors  order_empty_token, order_unknown_token, order_duplicate_token, order_no_tp, order_missing_axis.
/// Source  Megatron-LM RankGenerator. Megatron takes a repeated token and then builds groups with ranks that
/// do
///         not exist; here it is refused. Megatron refuses an order without tp, whatever its size (since
///         0.19); so do we. Other axes may be missing when their size is 1; they are appended.

#include <string>
#include <vector>

#include "sim/layout/rank_grid.h"

namespace sim {

/// The axes the string names, lower-cased, in its order.
std::vector<Axis> parse_order(const std::string& order);

/// Appends the axes the order leaves out, each of which must have size 1 in both grids.
void complete_order(const std::string& order, const PerAxis<int>& dense, const PerAxis<int>& expert,
                    std::vector<Axis>& axes);

}  // namespace sim
