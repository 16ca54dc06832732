#pragma once

/// How many layers each stage of a model must hold, stated a second time from the options, and held against a
/// placement.
///
/// Shapes  stage s of the model is chunk s / pp of pipeline rank s % pp; layers are numbered over the model.
/// Errors  none: a difference is returned as a sentence.
/// Exact   stages that --pipeline-model-parallel-layout spells out are not stated.
/// Source  Megatron-LM, transformer_block.py (get_num_layers_to_build) and transformer_layer.py
///         (get_transformer_layer_offset).

#include <string>

#include "sim/layout/layer_placement.h"

namespace verify {

/// Returns the first stage whose number of layers, or whose first layer, is not the stated one; "" if there
/// is none.
std::string wrong_layer_count(const sim::LayerRequest& request, const sim::LayerPlacement& placement);

}  // namespace verify
