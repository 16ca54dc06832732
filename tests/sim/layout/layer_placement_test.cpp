// Proves that each layer lies on exactly one stage where Megatron's own formulas put it, and that other
// requests are refused.

#include "sim/layout/layer_placement.h"

#include <cstddef>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <string>

#include "sim/base/error.h"
#include "tests/support/refusal_code.h"

namespace {

using sim::LayerPlacement;
using sim::LayerRequest;
using sim::StageLayers;

std::optional<LayerPlacement> try_place(const LayerRequest& request) {
  try {
    return sim::place_layers(request);
  } catch (const sim::Error&) {
    return std::nullopt;
  }
}

struct Drawn {
  int pp, vpp, per_chunk;
};

Drawn draw() {
  const int pp = *rc::gen::inRange(1, 17);
  return {pp, pp == 1 ? 1 : *rc::gen::inRange(1, 5), *rc::gen::inRange(1, 5)};
}

LayerRequest request_for(const Drawn& drawn, int num_layers) {
  LayerRequest request;
  request.num_layers = num_layers;
  request.pipeline_model_parallel_size = drawn.pp;
  if (drawn.vpp > 1) request.virtual_pipeline_model_parallel_size = drawn.vpp;
  return request;
}

StageLayers at(const LayerPlacement& placement, int rank, int chunk) {
  return placement.stages[static_cast<std::size_t>(rank)][static_cast<std::size_t>(chunk)];
}

// Megatron's own formula is offset = v * (L / vpp) + rank * (L / pp / vpp).
RC_GTEST_PROP(LayerPlacement, EvenIsTheClosedForm, ()) {
  const Drawn d = draw();
  const int layers = d.pp * d.vpp * d.per_chunk;
  const LayerPlacement placement = sim::place_layers(request_for(d, layers));
  for (int rank = 0; rank < d.pp; ++rank) {
    for (int v = 0; v < d.vpp; ++v) {
      RC_ASSERT(at(placement, rank, v) ==
                (StageLayers{d.per_chunk, v * (layers / d.vpp) + rank * d.per_chunk}));
    }
  }
}

RC_GTEST_PROP(LayerPlacement, AccountingIsTheClosedForm, ()) {
  const Drawn d = draw();
  const int embedding = *rc::gen::inRange(0, 2);
  const int loss = embedding == 0 ? 1 : *rc::gen::inRange(0, 2);
  const int places = d.pp * d.vpp * d.per_chunk;
  RC_PRE(places > embedding + loss);
  LayerRequest request = request_for(d, places - embedding - loss);
  request.account_for_embedding_in_pipeline_split = embedding == 1;
  request.account_for_loss_in_pipeline_split = loss == 1;
  const LayerPlacement placement = sim::place_layers(request);
  RC_ASSERT(placement.mode == "account");
  for (int rank = 0; rank < d.pp; ++rank) {
    for (int v = 0; v < d.vpp; ++v) {
      const bool first = rank == 0 && v == 0;
      const bool last = rank == d.pp - 1 && v == d.vpp - 1;
      const int count = d.per_chunk - (first ? embedding : 0) - (last ? loss : 0);
      const int offset = v * (places / d.vpp) + rank * d.per_chunk - (first ? 0 : embedding);
      RC_ASSERT(at(placement, rank, v) == (StageLayers{count, offset}));
    }
  }
}

RC_GTEST_PROP(LayerPlacement, WaysOfPlacingExcludeEachOther, ()) {
  const Drawn d = draw();
  LayerRequest request = request_for(d, d.pp * d.vpp * d.per_chunk);
  request.account_for_embedding_in_pipeline_split = *rc::gen::arbitrary<bool>();
  request.account_for_loss_in_pipeline_split = *rc::gen::arbitrary<bool>();
  const bool has_first = *rc::gen::arbitrary<bool>(), has_last = *rc::gen::arbitrary<bool>();
  if (has_first) request.num_layers_in_first_pipeline_stage = d.per_chunk;
  if (has_last) request.num_layers_in_last_pipeline_stage = d.per_chunk;
  const bool has_layout = *rc::gen::arbitrary<bool>();
  if (has_layout) request.pipeline_model_parallel_layout = "EtL";
  const bool accounts =
      request.account_for_embedding_in_pipeline_split || request.account_for_loss_in_pipeline_split;
  const int ways = int{accounts} + int{has_first || has_last} + int{has_layout};
  std::string code;
  try {
    sim::place_layers(request);
  } catch (const sim::Error& error) {
    code = error.refusal().code;
  }
  RC_ASSERT((code == "placement_modes") == (ways > 1));
}

RC_GTEST_PROP(LayerPlacement, UnevenIsTheClosedForm, ()) {
  const Drawn d = draw();
  RC_PRE(d.pp >= 3);
  const bool has_first = *rc::gen::arbitrary<bool>();
  const bool has_last = !has_first || *rc::gen::arbitrary<bool>();
  const int first = has_first ? *rc::gen::inRange(1, 5) : d.per_chunk;
  const int last = has_last ? *rc::gen::inRange(1, 5) : d.per_chunk;
  const int middle_ranks = d.pp - 2;
  const int per_row = first + middle_ranks * d.per_chunk + last;  // the layers of one chunk, over all ranks
  LayerRequest request = request_for(d, per_row * d.vpp);
  if (has_first) request.num_layers_in_first_pipeline_stage = first * d.vpp;
  if (has_last) request.num_layers_in_last_pipeline_stage = last * d.vpp;
  const LayerPlacement placement = sim::place_layers(request);
  for (int rank = 0; rank < d.pp; ++rank) {
    for (int v = 0; v < d.vpp; ++v) {
      const int count = rank == 0 ? first : rank == d.pp - 1 ? last : d.per_chunk;
      const int offset = v * per_row + (rank == 0 ? 0 : first + (rank - 1) * d.per_chunk);
      RC_ASSERT(at(placement, rank, v) == (StageLayers{count, offset}));
    }
  }
}

// One rank cannot be both first and last. The number of ranks that the refusal suggests has a place for all.
RC_GTEST_PROP(LayerPlacement, SuggestedRanksHoldAllLayers, ()) {
  LayerRequest request;
  request.num_layers_in_first_pipeline_stage = *rc::gen::inRange(1, 5);
  request.num_layers_in_last_pipeline_stage = *rc::gen::inRange(1, 5);
  request.num_layers = *request.num_layers_in_first_pipeline_stage +
                       *request.num_layers_in_last_pipeline_stage + *rc::gen::inRange(0, 4);
  std::string hint;
  try {
    sim::place_layers(request);
  } catch (const sim::Error& error) {
    hint = error.refusal().hint;
  }
  RC_ASSERT(!hint.empty());
  request.pipeline_model_parallel_size = std::stoi(hint.substr(hint.rfind(' ')));
  const auto placement = try_place(request);
  RC_ASSERT(placement.has_value());
  RC_ASSERT(sim::covers_each_layer_once(*placement));
}

// Whatever numbers a user gives, every layer is covered once or the request is refused. There is never a
// crash or a gap.
RC_GTEST_PROP(LayerPlacement, CoversEveryLayerOnceOrRefuses, ()) {
  const auto number =
      rc::gen::weightedOneOf<int>({{8, rc::gen::inRange(-1, 13)}, {1, rc::gen::arbitrary<int>()}});
  LayerRequest request;
  request.num_layers = *number;
  request.pipeline_model_parallel_size = *rc::gen::inRange(-1, 9);
  if (*rc::gen::arbitrary<bool>()) request.virtual_pipeline_model_parallel_size = *rc::gen::inRange(-1, 5);
  if (*rc::gen::inRange(0, 3) == 0) request.num_layers_in_first_pipeline_stage = *number;
  if (*rc::gen::inRange(0, 3) == 0) request.num_layers_in_last_pipeline_stage = *number;
  request.account_for_embedding_in_pipeline_split = *rc::gen::inRange(0, 4) == 0;
  request.account_for_loss_in_pipeline_split = *rc::gen::inRange(0, 4) == 0;
  const auto placement = try_place(request);
  RC_CLASSIFY(!placement, "refused");
  if (placement) RC_ASSERT(sim::covers_each_layer_once(*placement));
}

// The checker itself is checked: it sees a layer that is dropped, doubled or out of range.
RC_GTEST_PROP(LayerPlacement, CoverageSeesPlantedDefects, ()) {
  const Drawn d = draw();
  LayerPlacement placement = sim::place_layers(request_for(d, d.pp * d.vpp * d.per_chunk));
  StageLayers& stage = placement.stages[static_cast<std::size_t>(*rc::gen::inRange(0, d.pp))]
                                       [static_cast<std::size_t>(*rc::gen::inRange(0, d.vpp))];
  switch (*rc::gen::inRange(0, 4)) {
    case 0:
      stage.count -= 1;
      break;
    case 1:
      stage.count += 1;
      break;
    case 2:
      stage.offset += 1;
      break;
    default:
      stage.offset -= 1;
      break;
  }
  RC_ASSERT(!sim::covers_each_layer_once(placement));
}

LayerRequest spelled_out(const std::string& layout, int layers, int pp) {
  LayerRequest request;
  request.num_layers = layers;
  request.pipeline_model_parallel_size = pp;
  request.pipeline_model_parallel_layout = layout;
  return request;
}

// Any distribution over stages is read back from its layout string, written in full or in the short form.
RC_GTEST_PROP(LayerPlacement, LayoutStringSaysWhatItSays, ()) {
  const int pp = *rc::gen::inRange(2, 6);
  const int vpp = *rc::gen::inRange(1, 4);
  std::string plain = "E";
  std::string shortened = "E";
  std::vector<int> counts;
  int layers = 0;
  for (int stage = 0; stage < pp * vpp; ++stage) {
    const int count = *rc::gen::inRange(stage == 0 ? 1 : 0, 4);
    if (stage > 0) plain += "|";
    if (stage > 0) shortened += ",|";
    plain += std::string(static_cast<std::size_t>(count), 't');
    shortened += *rc::gen::arbitrary<bool>() ? "t*" + std::to_string(count) : "(t)*" + std::to_string(count);
    counts.push_back(count);
    layers += count;
  }
  for (const std::string& text : {plain + "L", shortened + "L"}) {
    const LayerPlacement placement = sim::place_layers(spelled_out(text, layers, pp));
    int offset = 0;
    for (int stage = 0; stage < pp * vpp; ++stage) {
      const int count = counts[static_cast<std::size_t>(stage)];
      RC_ASSERT(at(placement, stage % pp, stage / pp) == (StageLayers{count, offset}));
      offset += count;
    }
  }
}

TEST(LayerPlacement, CommasGoFirst) {
  // Commas are removed first, so "t*1,2" means "t*12": a comma after a count joins it with the digits
  // that follow.
  const LayerPlacement placement = sim::place_layers(spelled_out("Et*1,2|tL", 13, 2));
  EXPECT_EQ(at(placement, 0, 0), (StageLayers{12, 0}));
}

TEST(LayerPlacement, MultiTokenPredictionLayersAreNotCounted) {
  LayerRequest request = spelled_out("Ett|tt|tt|tmL", 7, 4);
  request.mtp_num_layers = 1;
  EXPECT_EQ(at(sim::place_layers(request), 3, 0), (StageLayers{1, 6, 1}));
  request = spelled_out("Ett|tt|ttm|tL", 7, 4);
  request.mtp_num_layers = 1;
  EXPECT_EQ(test::refusal_code([&] { sim::place_layers(request); }), "layout_mtp");  // t behind m
}

TEST(LayerPlacement, MultiTokenPredictionLayersAreOfTheLastStageUnlessTheLayoutPlacesThem) {
  LayerRequest request = spelled_out("Ett|tt|tttm|L", 7, 4);
  request.mtp_num_layers = 1;
  EXPECT_EQ(at(sim::place_layers(request), 2, 0), (StageLayers{3, 4, 1}));
  EXPECT_EQ(at(sim::place_layers(request), 3, 0), (StageLayers{0, 7, 0}));
  request.num_layers = 8;
  request.pipeline_model_parallel_layout.reset();
  EXPECT_EQ(at(sim::place_layers(request), 3, 0), (StageLayers{2, 6, 1}));
}

}  // namespace
