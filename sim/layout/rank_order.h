#pragma once

/// The order string: axes joined by '-', fastest varying first, such as "tp-cp-ep-dp-pp".
///
/// Errors  order_empty_token, order_unknown_token, order_duplicate_token, order_missing_axis, order_no_tp.
/// Source  Megatron-LM RankGenerator. Megatron takes a repeated token and then builds groups with ranks that
///         do not exist; here it is refused. Megatron (since 0.19) fails on an order without tp, whatever
///         tp's size, but only after other checks; so do we. Other axes may be missing when their size is 1.

#include <string>
#include <vector>

#include "sim/layout/rank_grid.h"

namespace sim {

/// The axes the string names, lower-cased, in its order.
std::vector<Axis> parse_order(const std::string& order);

/// Refuses an axis of this grid that has more than one rank and is not in the order. tp is not looked at.
void check_axes_present(const std::string& order, const std::vector<Axis>& axes, const PerAxis<int>& sizes);

/// Refuses an order without tp.
void check_tp_present(const std::string& order, const std::vector<Axis>& axes);

/// All five axes: those of the order, then those it leaves out.
std::vector<Axis> completed(std::vector<Axis> axes);

}  // namespace sim
