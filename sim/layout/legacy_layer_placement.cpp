#include "sim/layout/legacy_layer_placement.h"

#include <cstddef>
#include <fmt/format.h>

#include "sim/base/check.h"
#include "sim/base/error.h"
#include "sim/layout/size_rules.h"

namespace sim {

namespace {

constexpr const char* kSplitOption = "--pipeline-model-parallel-split-rank";
constexpr const char* kVirtualOption = "--virtual-pipeline-model-parallel-size";

void require_numbers(const LegacyLayerRequest& request) {
  if (request.num_layers != 0) require_size("--num-layers", request.num_layers);
  require_size("--pipeline-model-parallel-size", request.pipeline_model_parallel_size);
  const auto& chunks = request.virtual_pipeline_model_parallel_size;
  if (chunks) require_size(kVirtualOption, *chunks);
  if (chunks && request.pipeline_model_parallel_size <= 2) {
    refuse({.code = "vpp_needs_pp",
            .option = kVirtualOption,
            .numbers = fmt::format("{} chunks, but only {} pipeline rank(s)", *chunks,
                                   request.pipeline_model_parallel_size),
            .rule =
                "the legacy interleaved schedule needs pp > 2 (with 2 ranks, next and previous are the same)",
            .hint = "leave the option out, or 3 pipeline ranks or more (in a world that has as many)"});
  }
  require_pipeline(chunks, request.pipeline_model_parallel_size);
  if (chunks && request.encoder_and_decoder) {
    refuse({.code = "vpp_encoder_decoder",
            .option = kVirtualOption,
            .numbers = "given together with --encoder-and-decoder",
            .rule = "the legacy code has no virtual stages for encoder-decoder models",
            .hint = "leave one of the two out"});
  }
}

std::int64_t layers_per_rank(std::int64_t layers, std::int64_t ranks, const char* code, const char* whose) {
  if (layers % ranks == 0) return layers / ranks;
  refuse({.code = code,
          .option = "--num-layers",
          .numbers = fmt::format("{} layers over the {} ranks of the {} leaves {}", layers, ranks, whose,
                                 layers % ranks),
          .rule = fmt::format("the layers must divide evenly over the ranks of the {}", whose),
          .hint = fmt::format("--num-layers {}", layers - layers % ranks + ranks)});
}

void require_equal_chunks(std::int64_t layers, std::int64_t chunks, std::int64_t ranks) {
  if (layers % chunks == 0) return;
  const std::int64_t more = (layers / chunks + 1) * chunks;
  refuse({.code = "layers_vpp_div",
          .option = kVirtualOption,
          .numbers = fmt::format("{} layers a rank for {} chunks", layers, chunks),
          .rule = "all chunks of a rank hold the same number of layers",
          .hint = fmt::format("--num-layers {}, or fewer chunks", more * ranks)});
}

/// Gives each of the pipeline ranks begin to end - 1 `count` more layers in `chunks` chunks. Layers are
/// numbered from 0.
void fill(LayerPlacement& placement, std::int64_t begin, std::int64_t end, std::int64_t count,
          std::int64_t chunks) {
  int offset = 0;
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
    for (std::int64_t rank = begin; rank < end; ++rank) {
      const int layers = narrow(count / chunks);
      placement.stages[static_cast<std::size_t>(rank)].push_back({layers, offset});
      offset += layers;
    }
  }
}

void place_decoder_only(const LegacyLayerRequest& request, LayerPlacement& placement) {
  const std::int64_t pp = request.pipeline_model_parallel_size;
  const std::int64_t chunks = request.virtual_pipeline_model_parallel_size.value_or(1);
  const std::int64_t standalone = request.standalone_embedding_stage && pp > 1 ? 1 : 0;
  const std::int64_t count =
      layers_per_rank(request.num_layers, pp - standalone, "layers_pp_div", "pipeline");
  require_equal_chunks(count, chunks, pp - standalone);
  fill(placement, 0, standalone, 0, chunks);
  fill(placement, standalone, pp, count, chunks);
}

void place_encoder_decoder(const LegacyLayerRequest& request, LayerPlacement& placement) {
  const std::int64_t pp = request.pipeline_model_parallel_size;
  const std::int64_t standalone = request.standalone_embedding_stage ? 1 : 0;
  const std::string good_splits = standalone + 1 < pp
                                      ? fmt::format("{} {} to {}", kSplitOption, standalone + 1, pp - 1)
                                      : "--pipeline-model-parallel-size 3 or more";
  if (!request.pipeline_model_parallel_split_rank) {
    refuse({.code = "split_rank_missing",
            .option = kSplitOption,
            .numbers = fmt::format("absent, with --encoder-and-decoder on {} pipeline ranks", pp),
            .rule = "an encoder-decoder pipeline needs the rank at which the decoder begins",
            .hint = good_splits});
  }
  const std::int64_t split = *request.pipeline_model_parallel_split_rank;
  const std::int64_t encoder_ranks = split - standalone;
  const std::int64_t decoder_ranks = pp - split;
  if (encoder_ranks < 1 || decoder_ranks < 1) {
    refuse({.code = "split_rank_range",
            .option = kSplitOption,
            .numbers = fmt::format("split {} of {} ranks{}: {} ranks for the encoder, {} for the decoder",
                                   split, pp, standalone != 0 ? ", one of them for the embedding" : "",
                                   encoder_ranks, decoder_ranks),
            .rule = "each side needs at least one rank, or its layers are on no rank at all",
            .hint = good_splits});
  }
  const std::int64_t encoder =
      layers_per_rank(request.num_layers, encoder_ranks, "layers_encoder_div", "encoder");
  const std::int64_t decoder =
      layers_per_rank(request.num_layers, decoder_ranks, "layers_decoder_div", "decoder");
  fill(placement, 0, standalone, 0, 1);
  fill(placement, standalone, split, encoder, 1);
  fill(placement, split, pp, decoder, 1);
  placement.encoder_ranks = narrow(split);
}

/// Warns about a split rank outside the pipeline. The old code reads the split rank for encoder-decoder
/// models only, so in any other model such a value is a mistake without effect.
void warn_about_unread_split(const LegacyLayerRequest& request, LayerPlacement& placement) {
  const std::int64_t pp = request.pipeline_model_parallel_size;
  const std::int64_t split = request.pipeline_model_parallel_split_rank.value_or(0);
  if (split >= -pp && split < pp) return;
  placement.warnings.push_back(
      {"split_rank_ignored",
       fmt::format(
           "{} {} lies outside the pipeline of {} ranks; layers of a decoder-only model do not read it",
           kSplitOption, split, pp)});
}

}  // namespace

LayerPlacement place_legacy_layers(const LegacyLayerRequest& request) {
  require_numbers(request);
  LayerPlacement placement;
  placement.mode = "legacy";
  placement.num_layers = narrow(request.num_layers);
  placement.stages.resize(static_cast<std::size_t>(request.pipeline_model_parallel_size));
  if (request.encoder_and_decoder && request.pipeline_model_parallel_size > 1) {
    place_encoder_decoder(request, placement);
  } else {
    warn_about_unread_split(request, placement);
    place_decoder_only(request, placement);
  }
  if (request.standalone_embedding_stage && request.pipeline_model_parallel_size > 1) {
    placement.warnings.push_back({"standalone_offset",
                                  "Megatron numbers the layers after a standalone embedding stage as if "
                                  "that stage held layers too, so its layer numbers start one rank's worth "
                                  "too high; the offsets here number the layers the ranks really hold"});
  }
  SIM_CHECK(covers_each_layer_once(placement));
  return placement;
}

}  // namespace sim
