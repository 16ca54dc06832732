#pragma once

/// The rule book `megatron`: current Megatron-LM (Core 0.19). Dense grid tp-cp-dp-pp and expert grid
/// etp-ep-edp-pp from one order string; every group kind but the gtp and hybrid families.
///
///   dp = world / (tp * pp * cp)    etp = tp unless given    edp = world / (etp * ep * pp)
///
/// Errors  size_range, rank_offset_range, grid_outside_world, hcp_levels, rules_conflict, and then in
///         Megatron's own order dense_div, vpp_needs_pp, those of rank_order.h, expert_div, not_pp_last,
///         pp_mismatch, ndoi_dense, hcp_prod, order_no_tp, ndoi_expert. Megatron finds the last ones only
///         after it has created most groups; here nothing is built before all hold.
/// Source  Megatron-LM parallel_state.py at d98e8a64ddf3.

#include "sim/layout/layout.h"

namespace sim {

Layout make_megatron_layout(const ParallelSizes& sizes);

}  // namespace sim
