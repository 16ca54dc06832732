#pragma once

/// Layer placement of the rule book `legacy`: get_num_layers as the seed documents quote it.
///
///   one pipeline rank    all layers; split rank and standalone embedding stage are not read
///   decoder only         num_layers / (pp - standalone) a rank; a standalone embedding stage, rank 0, has
///                        none
///   encoder and decoder  ranks below the split hold the encoder, the others the decoder, num_layers each; a
///                        standalone embedding stage is taken from the encoder's ranks
///
/// Offsets number the layers each rank really holds, so that every layer of a side is covered once.
/// (Megatron's offsets skip a rank's worth of numbers behind a standalone embedding stage: warning
/// standalone_offset.)
///
/// Shapes  stages[pipeline rank][chunk].
/// Errors  size_range, stages_range, split_rank_missing, split_rank_range, layers_encoder_div,
///         layers_decoder_div, layers_pp_div, layers_vpp_div, vpp_needs_pp, vpp_encoder_decoder. Refused
///         although the seeds' arithmetic goes through: a split that leaves a side without ranks (Python's
///         modulo by a negative number succeeds).
/// Source  seed 000; Megatron-LM megatron/model/transformer.py at 2fadaa50a5.

#include <cstdint>
#include <optional>

#include "sim/layout/layer_placement.h"

namespace sim {

struct LegacyLayerRequest {
  std::int64_t num_layers = 0;  // may be 0: each stage is then a no-op layer
  std::int64_t pipeline_model_parallel_size = 1;
  std::optional<std::int64_t> virtual_pipeline_model_parallel_size;
  std::optional<std::int64_t> pipeline_model_parallel_split_rank;
  bool standalone_embedding_stage = false;
  bool encoder_and_decoder = false;
};

LayerPlacement place_legacy_layers(const LegacyLayerRequest& request);

}  // namespace sim
