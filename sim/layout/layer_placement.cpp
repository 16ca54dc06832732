#include "sim/layout/layer_placement.h"

#include <algorithm>
#include <cstddef>
#include <fmt/format.h>

#include "sim/base/check.h"
#include "sim/base/error.h"
#include "sim/base/refusals.h"
#include "sim/layout/layer_layout.h"
#include "sim/layout/size_rules.h"

namespace sim {

namespace {

constexpr const char* kFirstOption = "--decoder-first-pipeline-num-layers";
constexpr const char* kLastOption = "--decoder-last-pipeline-num-layers";

/// Checks all sizes of a placement. All that are out of range are refused together.
void require_numbers(const LayerRequest& request) {
  Refusals refusals;
  const auto keep = [&](const char* option, std::optional<std::int64_t> size) {
    if (size) refusals.keep([&] { require_size(option, *size); });
  };
  keep("--num-layers", request.num_layers);
  keep("--pipeline-model-parallel-size", request.pipeline_model_parallel_size);
  keep("--virtual-pipeline-model-parallel-size", request.virtual_pipeline_model_parallel_size);
  keep(kFirstOption, request.num_layers_in_first_pipeline_stage);
  keep(kLastOption, request.num_layers_in_last_pipeline_stage);
  if (request.mtp_num_layers != 0) keep("--mtp-num-layers", request.mtp_num_layers);
  refusals.throw_if_any();
}

bool accounts(const LayerRequest& request) {
  return request.account_for_embedding_in_pipeline_split || request.account_for_loss_in_pipeline_split;
}

bool uneven(const LayerRequest& request) {
  return request.num_layers_in_first_pipeline_stage || request.num_layers_in_last_pipeline_stage;
}

void require_modes(const LayerRequest& request) {
  const bool layout = request.pipeline_model_parallel_layout.has_value();
  if (int{accounts(request)} + int{uneven(request)} + int{layout} > 1) {
    refuse(
        {.code = "placement_modes",
         .option = layout                                       ? "--pipeline-model-parallel-layout"
                   : request.num_layers_in_first_pipeline_stage ? kFirstOption
                                                                : kLastOption,
         .numbers = fmt::format("given together:{}{}{}",
                                accounts(request) ? " --account-for-{embedding,loss}-in-pipeline-split" : "",
                                uneven(request) ? " --decoder-{first,last}-pipeline-num-layers" : "",
                                layout ? " --pipeline-model-parallel-layout" : ""),
         .rule = "these ways of placing layers exclude each other",
         .hint = "keep one of them"});
  }
}

/// Returns the number of layers for one rank with which all other ranks can hold the same number, the one
/// above an even share if that is possible; none if there is no such number.
std::optional<std::int64_t> layers_of_one_end(std::int64_t layers, std::int64_t ranks, std::int64_t vpp) {
  const std::int64_t below = layers / ranks / vpp * vpp;
  for (const std::int64_t each : {below + vpp, below}) {
    const std::int64_t left = layers - each * (ranks - 1);
    if (ranks > 1 && each > 0 && left > 0 && left % vpp == 0) return left;
  }
  return std::nullopt;
}

/// Layers that ranks hold in equal numbers. One end is a rank that could have a number of its own.
struct EqualShare {
  std::int64_t layers;
  std::int64_t ranks;
  std::string what;
  const char* end_option;  // null if no rank could
  std::int64_t layers_with_end, ranks_with_end;
};

/// Returns layers / ranks, and refuses a remainder. The hint of the refusal says with which number of layers
/// on one rank, and with which numbers of layers, there would be none.
std::int64_t per_rank(const LayerRequest& request, const EqualShare& share) {
  const std::int64_t left = share.layers % share.ranks;
  if (left == 0) return share.layers / share.ranks;
  const std::int64_t fewer = request.num_layers - left;
  const auto end = share.end_option == nullptr
                       ? std::nullopt
                       : layers_of_one_end(share.layers_with_end, share.ranks_with_end,
                                           request.virtual_pipeline_model_parallel_size.value_or(1));
  refuse({.code = "layers_pp_div",
          .option = "--num-layers",
          .numbers = fmt::format("{} over {} pipeline ranks leaves {}", share.what, share.ranks, left),
          .rule = "every rank gets the same number of layers; the remainder would be dropped",
          .hint = fmt::format(
              "{}--num-layers {}{}", end ? fmt::format("{} {}, or ", share.end_option, *end) : "",
              share.layers > left && fewer > 0 ? fmt::format("{} or ", fewer) : "", fewer + share.ranks)});
}

void require_chunks(std::int64_t rank, std::int64_t layers, std::int64_t vpp) {
  if (layers % vpp == 0) return;
  refuse(
      {.code = "layers_vpp_div",
       .option = "--virtual-pipeline-model-parallel-size",
       .numbers = fmt::format("pipeline rank {} has {} layers (or places) for {} chunks", rank, layers, vpp),
       .rule = "all chunks of a rank hold the same number of layers",
       .hint = fmt::format("a multiple of {} layers on every rank, or fewer chunks", vpp)});
}

/// Places the given number of layers on the first, the middle and the last ranks, each cut into vpp
/// chunks. Chunk v of every rank comes before chunk v + 1 of any rank.
LayerPlacement place_by_rank(std::int64_t pp, std::int64_t vpp, std::int64_t first, std::int64_t middle,
                             std::int64_t last) {
  const auto of_rank = [&](std::int64_t rank) {
    if (rank == 0) return first;
    return rank == pp - 1 ? last : middle;
  };
  for (const std::int64_t rank : {std::int64_t{0}, std::min<std::int64_t>(1, pp - 1), pp - 1}) {
    require_chunks(rank, of_rank(rank), vpp);
  }
  LayerPlacement placement;
  placement.stages.assign(static_cast<std::size_t>(pp),
                          std::vector<StageLayers>(static_cast<std::size_t>(vpp)));
  int offset = 0;
  for (std::size_t chunk = 0; chunk < static_cast<std::size_t>(vpp); ++chunk) {
    for (std::size_t rank = 0; rank < static_cast<std::size_t>(pp); ++rank) {
      StageLayers& stage = placement.stages[rank][chunk];
      stage.count = narrow(of_rank(static_cast<std::int64_t>(rank)) / vpp);
      stage.offset = offset;
      offset += stage.count;
    }
  }
  return placement;
}

LayerPlacement place_even(const LayerRequest& request, std::int64_t vpp) {
  const std::int64_t pp = request.pipeline_model_parallel_size;
  const std::int64_t embedding = request.account_for_embedding_in_pipeline_split ? 1 : 0;
  const std::int64_t loss = request.account_for_loss_in_pipeline_split ? 1 : 0;
  const std::string what = accounts(request) ? fmt::format("{} layers + {} embedding + {} loss",
                                                           request.num_layers, embedding, loss)
                                             : fmt::format("{} layers", request.num_layers);
  const std::int64_t places = per_rank(request, {.layers = request.num_layers + embedding + loss,
                                                 .ranks = pp,
                                                 .what = what,
                                                 .end_option = accounts(request) ? nullptr : kLastOption,
                                                 .layers_with_end = request.num_layers,
                                                 .ranks_with_end = pp});
  LayerPlacement placement = place_by_rank(pp, vpp, places, places, places);
  // The embedding takes the place of the first layer, and the loss takes the place of the last.
  for (auto& rank : placement.stages) {
    for (StageLayers& stage : rank) stage.offset -= stage.offset == 0 ? 0 : narrow(embedding);
  }
  placement.stages.front().front().count -= narrow(embedding);
  placement.stages.back().back().count -= narrow(loss);
  placement.mode = accounts(request) ? "account" : "even";
  return placement;
}

/// The ranks between the first and the last, of which one or both have their own numbers of layers.
struct Middle {
  std::int64_t ranks, layers;
};

/// Refuses a middle that Megatron cannot build.
void require_middle(const LayerRequest& request, std::int64_t vpp, const Middle& middle) {
  const std::int64_t pp = request.pipeline_model_parallel_size;
  const auto& first = request.num_layers_in_first_pipeline_stage;
  const auto& last = request.num_layers_in_last_pipeline_stage;
  const auto [middle_ranks, middle_layers] = middle;
  const std::string numbers =
      fmt::format("{} layers on {} ranks, {} on the first, {} on the last: {} layers for {} ranks between",
                  request.num_layers, pp, first ? fmt::format("{}", *first) : "as many as between",
                  last ? fmt::format("{}", *last) : "as many as between", middle_layers, middle_ranks);
  if (middle_ranks < 0) {
    refuse({.code = "uneven_no_middle",
            .option = kLastOption,
            .numbers = numbers,
            .rule = "with one pipeline rank, first and last are the same rank; Megatron then builds only the "
                    "layers of the last",
            .hint = fmt::format("leave both options out, or --pipeline-model-parallel-size {}",
                                middle_layers == 0 ? 2 : 3)});
  }
  if (middle_ranks == 0 && middle_layers == 0 && pp == 2 && vpp > 1) {
    refuse(
        {.code = "uneven_no_middle",
         .option = "--virtual-pipeline-model-parallel-size",
         .numbers = fmt::format("{}, {} chunks each", numbers, vpp),
         .rule = "with two pipeline ranks, both numbers given and virtual chunks, Megatron divides by the 0 "
                 "ranks between",
         .hint = "leave out one of first and last, or spell it out with --pipeline-model-parallel-layout"});
  }
  if (middle_layers < 0 || (middle_layers == 0) != (middle_ranks == 0)) {
    refuse(
        {.code = "uneven_middle",
         .option = first ? kFirstOption : kLastOption,
         .numbers = numbers,
         .rule = "the ranks between need at least one layer each, and no ranks between means no layers left",
         .hint = "other numbers for the first and last rank, that add up with the rest to --num-layers"});
  }
}

LayerPlacement place_uneven(const LayerRequest& request, std::int64_t vpp) {
  const std::int64_t pp = request.pipeline_model_parallel_size;
  const auto& first = request.num_layers_in_first_pipeline_stage;
  const auto& last = request.num_layers_in_last_pipeline_stage;
  const Middle middle{.ranks = pp - (first ? 1 : 0) - (last ? 1 : 0),
                      .layers = request.num_layers - first.value_or(0) - last.value_or(0)};
  require_middle(request, vpp, middle);
  const std::int64_t each =
      middle.ranks == 0 ? 0
                        : per_rank(request, {.layers = middle.layers,
                                             .ranks = middle.ranks,
                                             .what = fmt::format("{} layers left", middle.layers),
                                             .end_option = last ? kLastOption : kFirstOption,
                                             .layers_with_end = middle.layers + (last ? *last : *first),
                                             .ranks_with_end = middle.ranks + 1});
  LayerPlacement placement = place_by_rank(pp, vpp, pp == 1 ? request.num_layers : first.value_or(each), each,
                                           pp == 1 ? request.num_layers : last.value_or(each));
  placement.mode = "uneven";
  return placement;
}

LayerPlacement place_spelled_out(const LayerRequest& request) {
  const auto& vpp = request.virtual_pipeline_model_parallel_size;
  const std::vector<LayerStage> stages =
      read_layer_layout(*request.pipeline_model_parallel_layout, narrow(request.pipeline_model_parallel_size),
                        vpp ? std::optional<int>(narrow(*vpp)) : std::nullopt, narrow(request.num_layers),
                        narrow(request.mtp_num_layers));
  LayerPlacement placement;
  const auto pp = static_cast<std::size_t>(request.pipeline_model_parallel_size);
  placement.stages.assign(pp, {});
  int offset = 0;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    placement.stages[s % pp].push_back({stages[s].decoder_layers, offset, stages[s].mtp_layers});
    offset += stages[s].decoder_layers;
  }
  placement.mode = "layout";
  return placement;
}

LayerPlacement place(const LayerRequest& request) {
  if (request.pipeline_model_parallel_layout.has_value()) return place_spelled_out(request);
  const std::int64_t vpp = request.virtual_pipeline_model_parallel_size.value_or(1);
  return uneven(request) ? place_uneven(request, vpp) : place_even(request, vpp);
}

/// True if the stages of pipeline ranks begin to end - 1 hold each of the `num_layers` layers exactly
/// once.
bool covered(const LayerPlacement& placement, std::size_t begin, std::size_t end) {
  std::vector<int> holders(static_cast<std::size_t>(placement.num_layers), 0);
  for (std::size_t rank = begin; rank < end; ++rank) {
    for (const StageLayers& stage : placement.stages[rank]) {
      if (stage.count < 0) return false;
      for (int layer = stage.offset; layer < stage.offset + stage.count; ++layer) {
        if (layer < 0 || layer >= placement.num_layers) return false;
        ++holders[static_cast<std::size_t>(layer)];
      }
    }
  }
  return std::all_of(holders.begin(), holders.end(), [](int count) { return count == 1; });
}

}  // namespace

LayerPlacement place_layers(const LayerRequest& request) {
  require_numbers(request);
  Refusals refusals;
  const bool has_a_mode = refusals.keep([&] { require_modes(request); });
  const bool has_a_pipeline = refusals.keep([&] {
    require_pipeline(request.virtual_pipeline_model_parallel_size, request.pipeline_model_parallel_size);
  });
  LayerPlacement placement;
  if (has_a_mode && has_a_pipeline) refusals.keep([&] { placement = place(request); });
  refusals.throw_if_any();
  placement.num_layers = narrow(request.num_layers);
  if (placement.mode != "layout") placement.stages.back().back().mtp = narrow(request.mtp_num_layers);
  SIM_CHECK(covers_each_layer_once(placement));
  return placement;
}

bool covers_each_layer_once(const LayerPlacement& placement) {
  const auto split = static_cast<std::size_t>(placement.encoder_ranks);
  if (split > 0 && !covered(placement, 0, split)) return false;
  return covered(placement, split, placement.stages.size());
}

}  // namespace sim
