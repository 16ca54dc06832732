#pragma once

/// Reads a layer layout string: stages separated by '|', where each stage is a run of letters.
///
///   E embedding   t transformer layer   m multi-token-prediction layer   L loss
///
/// Commas have no meaning and are removed first, so "t*1,2" is "t*12". Then each "(...)*n" is written out
/// n times, and then each "x*n" for any single character x, including '|'. Parentheses do not nest.
/// Stages may be empty.
///
/// Shapes  stage s belongs to pipeline rank s % pp, chunk s / pp.
/// Errors  layout_syntax, layout_too_long, stages_range, layout_stages, vpp_needs_pp, layout_vpp,
///         layout_ends, layout_layers, layout_mtp.
/// Source  Megatron-LM pipeline_parallel_layer_layout.py.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sim {

struct LayerStage {
  int decoder_layers = 0;
  int mtp_layers = 0;
};

/// Returns how many stages the layout has when it is written out.
std::int64_t stages_of_layout(const std::string& layout);

/// Returns the stages in model order, after checking them against the sizes of the model.
std::vector<LayerStage> read_layer_layout(const std::string& layout, int pipeline_model_parallel_size,
                                          std::optional<int> virtual_pipeline_model_parallel_size,
                                          int num_layers, int mtp_num_layers);

}  // namespace sim
