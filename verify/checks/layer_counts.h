#pragma once

/// Computes a second time, from the options, how many layers each stage of a model must hold, and compares a
/// placement with it.
///
/// Shapes  stage s of the model is chunk s / pp of pipeline rank s % pp; layers are numbered over the model.
/// Errors  none; a difference is returned as a sentence.
/// Exact   stages that --pipeline-model-parallel-layout spells out are not checked.
/// Source  Megatron-LM, transformer_block.py (get_num_layers_to_build) and transformer_layer.py
///         (get_transformer_layer_offset).

#include <string>

#include "sim/layout/layer_placement.h"

namespace verify {

/// Returns a sentence about the first stage that holds another number of layers, or another first layer, than
/// the options give it; "" if there is none.
std::string wrong_layer_count(const sim::LayerRequest& request, const sim::LayerPlacement& placement);

}  // namespace verify
