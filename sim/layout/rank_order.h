#pragma once

/// The order string: axes joined by '-', fastest varying first, such as "tp-cp-ep-dp-pp".
///
/// Errors  order_empty_token, order_unknown_token, order_duplicate_token, order_missing_axis,
///         order_no_tp.
/// Source  Megatron-LM RankGenerator. Megatron accepts a repeated token and then builds groups with ranks
///         that do not exist; here it is refused. Megatron (since 0.19) fails on an order without tp,
///         whatever the size of tp, but only after other checks; the checks here do the same. Other axes
///         may be missing when their size is 1.

#include <string>
#include <vector>

#include "sim/layout/rank_grid.h"

namespace sim {

/// Returns the axes that the string names, in its order. Case is ignored.
std::vector<Axis> parse_order(const std::string& order);

/// Refuses an order that lacks an axis with more than one rank in this grid. tp is not checked.
void require_axes_present(const std::string& order, const std::vector<Axis>& axes, const PerAxis<int>& sizes);

/// Refuses an order without tp.
void require_tp_present(const std::string& order, const std::vector<Axis>& axes);

/// Returns all five axes: those of the order, then those that it leaves out.
std::vector<Axis> completed(std::vector<Axis> axes);

}  // namespace sim
