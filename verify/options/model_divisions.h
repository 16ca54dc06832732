#pragma once

/// What a layout asks of a model's sizes, beside heads (sharded_layers.h): each tensor-parallel rank has as
/// many columns and tokens as the next one, each context-parallel rank two equal parts of a sequence.
///
/// Errors  ffn_tp_div; sequence_tp_div, with sequence parallelism; sequence_cp_div. Sizes that are not given
///         are not asked of.
/// Source  Megatron-LM, core/transformer/transformer_config.py, core/tensor_parallel/utils.py (divide);
///         context_parallel's zigzag.

#include "sim/layout/layout.h"
#include "verify/options/settings.h"

namespace verify {

void check_model_divides(const Settings& settings, const sim::Layout& layout);

}  // namespace verify
