#pragma once

/// The placement of transformer layers: how many layers, and which ones, each virtual chunk of each
/// pipeline rank holds. Current Megatron has four modes that exclude each other:
///
///   even     num_layers are spread evenly over all ranks and chunks.
///   account  The embedding, the loss, or both count as one layer each, and the total is spread evenly.
///            To make up for it, the first chunk of the first rank holds one layer less for the
///            embedding, and the last chunk of the last rank one layer less for the loss.
///   uneven   The layers of the first rank, the last rank, or both are given, and the rest is spread
///            evenly over the ranks between.
///   layout   The stages are spelled out: "Et*3|(tt|)*29,m|L" (layer_layout.h).
///
/// Shapes  stages[pipeline rank][chunk]; stage s of the model is rank s % pp, chunk s / pp.
/// Errors  size_range, stages_range, vpp_needs_pp, placement_modes, layers_pp_div, layers_vpp_div,
///         uneven_no_middle, uneven_middle, and those of layer_layout.h. A placement that would not cover
///         every layer exactly once is refused, whatever Megatron does. Rules that a request breaks
///         independently of each other are refused together (sim/base/refusals.h).
/// Source  Megatron-LM transformer_block.py, transformer_layer.py, transformer_config.py.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/layout/warning.h"

namespace sim {

struct LayerRequest {
  std::int64_t num_layers = 0;
  std::int64_t pipeline_model_parallel_size = 1;
  std::optional<std::int64_t> virtual_pipeline_model_parallel_size;
  std::optional<std::int64_t> num_layers_in_first_pipeline_stage;
  std::optional<std::int64_t> num_layers_in_last_pipeline_stage;
  bool account_for_embedding_in_pipeline_split = false;
  bool account_for_loss_in_pipeline_split = false;
  std::optional<std::string> pipeline_model_parallel_layout;
  std::int64_t mtp_num_layers = 0;
};

struct StageLayers {
  int count = 0;
  int offset = 0;  // number of the stage's first layer, counted over the whole model
  int mtp = 0;     // layers of multi-token prediction: of the last stage, where no layout places them
  bool operator==(const StageLayers&) const = default;
};

struct LayerPlacement {
  std::string mode;  // even, account, uneven, layout, or legacy
  int num_layers = 0;
  /// In a legacy encoder-decoder model, pipeline ranks below this number belong to the encoder. It is 0
  /// for all other models.
  int encoder_ranks = 0;
  std::vector<std::vector<StageLayers>> stages;
  std::vector<Warning> warnings;
};

LayerPlacement place_layers(const LayerRequest& request);

/// True if every layer is in exactly one stage. In an encoder-decoder model this must hold for the layers
/// of each side.
bool covers_each_layer_once(const LayerPlacement& placement);

}  // namespace sim
