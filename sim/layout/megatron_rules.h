#pragma once

/// The rule book `megatron`: current Megatron-LM (Core 0.19). One order string gives the dense grid
/// tp-cp-dp-pp and the expert grid etp-ep-edp-pp. Every kind of group is made except the gtp and hybrid
/// families.
///
///   dp = world / (tp * pp * cp)    etp = tp unless given    edp = world / (etp * ep * pp)
///
/// Errors  size_range, rank_offset_range, grid_outside_world, hcp_levels, rules_conflict, and then in the
///         order of Megatron's own checks dense_div, vpp_needs_pp, those of rank_order.h, expert_div,
///         not_pp_last, pp_mismatch, ndoi_dense, hcp_prod, order_no_tp, ndoi_expert. Megatron detects the
///         last ones only after it has created most groups; here nothing is built before all checks pass. All
///         rules that the sizes break are refused together (sim/base/refusals.h), in this order, except those
///         whose numbers are undefined because of another refusal.
/// Source  Megatron-LM parallel_state.py at d98e8a64ddf3.

#include "sim/layout/layout.h"

namespace sim {

Layout make_megatron_layout(const ParallelSizes& sizes);

}  // namespace sim
