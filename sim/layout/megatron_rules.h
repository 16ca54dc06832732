#pragma once

/// The rule book `megatron`: current Megatron-LM (Core 0.19). Dense grid tp-cp-dp-pp and expert grid
/// etp-ep-edp-pp from one order string; every group kind but the gtp and hybrid families.
///
///   dp = world / (tp * pp * cp)    etp = tp unless given    edp = world / (etp * ep * pp)
///
/// Errors  size_range, rank_offset_range, grid_outside_world, dense_div, vpp_needs_pp, order_*, expert_div,
///         not_pp_last, pp_mismatch, ndoi_dense, ndoi_expert, hcp_prod, split_rank_is_legacy. Megatron finds
///         some of them only after it has created most groups; here nothing is built before all hold.
/// Source  Megatron-LM parallel_state.py at d98e8a64ddf3.

#include "sim/layout/layout.h"

namespace sim {

Layout make_megatron_layout(const ParallelSizes& sizes);

}  // namespace sim
