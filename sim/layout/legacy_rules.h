#pragma once

/// The rule book `legacy`: initialize_model_parallel of the old `mpu` code of Megatron-LM.
///
///   tp := min(tp, world), pp := min(pp, world), each on its own; then world % (tp * pp) must be 0
///   ranks: tp fastest, then dp, then pp; creation order dp, mp, tp, then per pipeline {pp, embd, pos_embd}
///   split rank s (encoder below, decoder from it on), read only when pp > 1:
///     embd = [first, s-th, last], pos_embd = [first, s-th], each rank once
///
/// Like the old code, it accepts a clamped size, and a negative split rank, which counts from the end and
/// leaves no rank before the split. It warns about them: size_clamped, split_rank_negative,
/// split_rank_ignored.
///
/// Errors  size_range, rank_offset_range, grid_outside_world, hcp_levels, legacy_has_no_axis, dense_div,
///         split_rank_range.
/// Source  Megatron-LM megatron/mpu/initialize.py at 2fadaa50a5.

#include "sim/layout/layout.h"

namespace sim {

Layout make_legacy_layout(const ParallelSizes& sizes);

}  // namespace sim
