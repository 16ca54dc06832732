// Proves that the legacy layer placement equals get_num_layers of the seeds, and that virtual offsets
// have the closed form.

#include "sim/layout/legacy_layer_placement.h"

#include <cstddef>
#include <cstdio>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "sim/base/error.h"

namespace {

using sim::LayerPlacement;
using sim::LegacyLayerRequest;

std::optional<LayerPlacement> try_place(const LegacyLayerRequest& request) {
  try {
    return sim::place_legacy_layers(request);
  } catch (const sim::Error&) {
    return std::nullopt;
  }
}

/// get_num_layers as the seeds write it, in Python's arithmetic. Returns nothing where Python raises.
std::optional<std::vector<int>> seeds_counts(int layers, int pp, std::optional<int> split, bool standalone,
                                             bool both) {
  const auto floor_mod = [](int a, int b) { return (a % b + b) % b; };
  std::vector<int> counts;
  for (int rank = 0; rank < pp; ++rank) {
    if (pp == 1) {
      counts.push_back(layers);
      continue;
    }
    const int transformer_ranks = pp - (standalone ? 1 : 0);
    if (both) {
      if (!split) return std::nullopt;
      const int encoder = *split - (standalone ? 1 : 0);
      const int decoder = transformer_ranks - encoder;
      if (encoder == 0 || floor_mod(layers, encoder) != 0) return std::nullopt;
      if (decoder == 0 || floor_mod(layers, decoder) != 0) return std::nullopt;
      const bool before_split = rank < *split;
      counts.push_back(before_split ? (standalone && rank == 0 ? 0 : layers / encoder) : layers / decoder);
    } else {
      if (layers % transformer_ranks != 0) return std::nullopt;
      counts.push_back(standalone && rank == 0 ? 0 : layers / transformer_ranks);
    }
  }
  return counts;
}

RC_GTEST_PROP(LegacyLayerPlacement, EqualsTheSeedsWhereAllLayersAreCovered, ()) {
  const int pp = *rc::gen::inRange(1, 13);
  const int layers = *rc::gen::inRange(0, 13) * *rc::gen::inRange(1, 13);
  std::optional<int> split;
  if (*rc::gen::arbitrary<bool>()) split = *rc::gen::inRange(-2, 15);
  const bool standalone = *rc::gen::arbitrary<bool>();
  const bool both = *rc::gen::arbitrary<bool>();
  LegacyLayerRequest request{.num_layers = layers,
                             .pipeline_model_parallel_size = pp,
                             .standalone_embedding_stage = standalone,
                             .encoder_and_decoder = both};
  if (split) request.pipeline_model_parallel_split_rank = *split;
  const auto placement = try_place(request);
  const auto expected = seeds_counts(layers, pp, split, standalone, both);
  const bool one_side_empty = both && pp > 1 && split && (*split - (standalone ? 1 : 0) < 1 || *split >= pp);
  RC_ASSERT(placement.has_value() == (expected.has_value() && !one_side_empty));
  RC_CLASSIFY(placement.has_value(), "placed");
  if (!placement) return;
  for (std::size_t rank = 0; rank < expected->size(); ++rank) {
    RC_ASSERT(placement->stages[rank][0].count == (*expected)[rank]);
  }
  RC_ASSERT(sim::covers_each_layer_once(*placement));
}

// The checker itself is checked: it sees a layer that is dropped or doubled on either side of the split.
RC_GTEST_PROP(LegacyLayerPlacement, CoverageSeesPlantedDefectsOnBothSides, ()) {
  constexpr int kLayersOfAnySplit = 840;  // a multiple of 1 to 8
  const int pp = *rc::gen::inRange(2, 9);
  LayerPlacement placement =
      sim::place_legacy_layers({.num_layers = kLayersOfAnySplit,
                                .pipeline_model_parallel_size = pp,
                                .pipeline_model_parallel_split_rank = *rc::gen::inRange(1, pp),
                                .encoder_and_decoder = true});
  RC_ASSERT(sim::covers_each_layer_once(placement));
  sim::StageLayers& stage = placement.stages[static_cast<std::size_t>(*rc::gen::inRange(0, pp))][0];
  stage.count += *rc::gen::element(-1, 1);
  RC_ASSERT(!sim::covers_each_layer_once(placement));
}

// What the refusal of a split rank suggests is accepted, and where it suggests none there is none.
RC_GTEST_PROP(LegacyLayerPlacement, SuggestedSplitRanksAreAccepted, ()) {
  const int pp = *rc::gen::inRange(2, 9);
  constexpr int kLayersOfAnySplit = 840;  // a multiple of 1 to 8
  LegacyLayerRequest request{.num_layers = kLayersOfAnySplit,
                             .pipeline_model_parallel_size = pp,
                             .standalone_embedding_stage = *rc::gen::arbitrary<bool>(),
                             .encoder_and_decoder = true};
  if (*rc::gen::arbitrary<bool>()) request.pipeline_model_parallel_split_rank = 0;
  std::string hint;
  try {
    sim::place_legacy_layers(request);
  } catch (const sim::Error& error) {
    hint = error.refusal().hint;
  }
  RC_ASSERT(!hint.empty());
  int first = 0, last = -1;  // no split rank
  const int numbers =
      std::sscanf(hint.c_str(), "--pipeline-model-parallel-split-rank %d to %d", &first, &last);
  RC_ASSERT((numbers == 2 ? first <= last : hint == "--pipeline-model-parallel-size 3 or more"));
  for (int split = -pp; split <= pp; ++split) {
    request.pipeline_model_parallel_split_rank = split;
    RC_ASSERT(try_place(request).has_value() == (numbers == 2 && split >= first && split <= last));
  }
}

// Without a standalone stage, the virtual offset is chunk * (layers / vpp) + rank * layers per chunk.
RC_GTEST_PROP(LegacyLayerPlacement, VirtualOffsetsAreTheClosedForm, ()) {
  const int pp = *rc::gen::inRange(3, 9);
  const int vpp = *rc::gen::inRange(1, 5);
  const int per_chunk = *rc::gen::inRange(1, 5);
  const int layers = pp * vpp * per_chunk;
  const LayerPlacement placement = sim::place_legacy_layers({.num_layers = layers,
                                                             .pipeline_model_parallel_size = pp,
                                                             .virtual_pipeline_model_parallel_size = vpp});
  for (int rank = 0; rank < pp; ++rank) {
    for (int v = 0; v < vpp; ++v) {
      RC_ASSERT(placement.stages[static_cast<std::size_t>(rank)][static_cast<std::size_t>(v)] ==
                (sim::StageLayers{per_chunk, v * (layers / vpp) + rank * per_chunk}));
    }
  }
}

}  // namespace
