#pragma once

/// The divisions of a model's sizes that a layout requires, except that of heads (sharded_layers.h). All
/// tensor-parallel ranks hold the same number of MLP columns. With sequence parallelism, all ranks that
/// share a sequence hold the same number of its tokens. A context-parallel rank holds two equal parts of
/// a sequence.
///
/// Errors  ffn_tp_div: F over tp; sequence_tp_div: S over tp * cp, with sequence parallelism;
///         sequence_cp_div: S over 2 * cp, where cp is above 1. Sizes that are not given are not checked.
/// Source  Megatron-LM, core/transformer/transformer_config.py, core/tensor_parallel/utils.py (divide);
///         context_parallel's zigzag.

#include "sim/layout/layout.h"
#include "verify/options/settings.h"

namespace verify {

void require_model_divides(const Settings& settings, const sim::Layout& layout);

}  // namespace verify
