#pragma once

/// Layer placement by the rule book `legacy`: get_num_layers of the old Megatron-LM.
///
///   one pipeline rank    It holds all layers. The split rank and the standalone embedding stage are not
///                        read.
///   decoder only         Each rank holds num_layers / (pp - standalone) layers. A standalone embedding
///                        stage is rank 0 and holds none.
///   encoder and decoder  Ranks below the split hold the encoder, the others the decoder, num_layers
///                        each. A standalone embedding stage takes one of the ranks of the encoder.
///
/// Offsets number the layers that each rank really holds, so every layer of a side is covered once.
/// (Megatron's offsets after a standalone embedding stage skip the numbers of one rank. The warning
/// standalone_offset says so.)
///
/// Shapes  stages[pipeline rank][chunk].
/// Errors  size_range, stages_range, split_rank_missing, split_rank_range, layers_encoder_div,
///         layers_decoder_div, layers_pp_div, layers_vpp_div, vpp_needs_pp, vpp_encoder_decoder. A split
///         that leaves a side without ranks is refused, although the old code does not fail on it
///         (in Python, modulo by a negative number succeeds).
/// Source  Megatron-LM megatron/model/transformer.py at 2fadaa50a5.

#include <cstdint>
#include <optional>

#include "sim/layout/layer_placement.h"

namespace sim {

struct LegacyLayerRequest {
  std::int64_t num_layers = 0;  // may be 0; each stage is then a no-op layer
  std::int64_t pipeline_model_parallel_size = 1;
  std::optional<std::int64_t> virtual_pipeline_model_parallel_size;
  std::optional<std::int64_t> pipeline_model_parallel_split_rank;
  bool standalone_embedding_stage = false;
  bool encoder_and_decoder = false;
};

LayerPlacement place_legacy_layers(const LegacyLayerRequest& request);

}  // namespace sim
