#include "sim/layout/legacy_rules.h"

#include <algorithm>
#include <cstdint>
#include <fmt/format.h>
#include <utility>

#include "sim/base/error.h"
#include "sim/base/refusals.h"
#include "sim/layout/kind_table.h"
#include "sim/layout/size_rules.h"

namespace sim {

namespace {

constexpr const char* kLegacyOrder = "tp-dp-pp";

[[noreturn]] void refuse_axis(const char* option, const std::string& value) {
  refuse({.code = "legacy_has_no_axis",
          .option = option,
          .numbers = fmt::format("{} is {} with --rules legacy", option, value),
          .rule = "the legacy rule book knows tp, pp and dp only, in the fixed order tp-dp-pp",
          .hint = "--rules megatron, or leave the option out"});
}

void require_axes(const ParallelSizes& sizes) {
  Refusals refusals;
  const auto refuse_if = [&](bool is_given, const char* option, const std::string& value) {
    if (is_given) refusals.keep([&] { refuse_axis(option, value); });
  };
  const auto must_be_one = [&](const char* option, std::int64_t size) {
    refuse_if(size != 1, option, std::to_string(size));
  };
  must_be_one("--context-parallel-size", sizes.context_parallel_size);
  must_be_one("--expert-model-parallel-size", sizes.expert_model_parallel_size);
  must_be_one("--num-distributed-optimizer-instances", sizes.num_distributed_optimizer_instances);
  refuse_if(sizes.expert_tensor_parallel_size.has_value(), "--expert-tensor-parallel-size",
            std::to_string(sizes.expert_tensor_parallel_size.value_or(0)));
  refuse_if(!sizes.hierarchical_context_parallel_sizes.empty(), "--hierarchical-context-parallel-sizes",
            "given");
  refuse_if(sizes.order != kDefaultOrder && sizes.order != kLegacyOrder, "--order", sizes.order);
  refuse_if(sizes.rank_offset != 0, "--rank-offset", std::to_string(sizes.rank_offset));
  refuse_if(sizes.local_world_size.has_value(), "--local-world-size",
            std::to_string(sizes.local_world_size.value_or(0)));
  refusals.throw_if_any();
}

/// Returns the split rank as a position in a pipeline of pp > 1 ranks. A negative value counts from the
/// end, like an index in Python.
int split_position(std::int64_t split, int pp) {
  if (split >= -pp && split < pp) return static_cast<int>(split < 0 ? split + pp : split);
  refuse({.code = "split_rank_range",
          .option = "--pipeline-model-parallel-split-rank",
          .numbers = fmt::format("{} in a pipeline of {} ranks", split, pp),
          .rule = "the split rank is a pipeline rank, 0 to pp - 1 (or -pp to -1, counted from the end)",
          .hint = fmt::format("--pipeline-model-parallel-split-rank {}", pp / 2)});
}

std::vector<int> sorted_unique(std::vector<int> positions) {
  std::sort(positions.begin(), positions.end());
  positions.erase(std::unique(positions.begin(), positions.end()), positions.end());
  return positions;
}

/// The first rank, the last rank and the split rank of a pipeline hold an embedding.
KindSizes legacy_kind_sizes(const ParallelSizes& sizes, int pp) {
  std::vector<int> embedding = {0, pp - 1};
  std::vector<int> position_embedding = {0};
  if (sizes.pipeline_model_parallel_split_rank && pp > 1) {
    const int split = split_position(*sizes.pipeline_model_parallel_split_rank, pp);
    embedding.push_back(split);
    position_embedding.push_back(split);
  }
  return {.embedding = sorted_unique(embedding), .position_embedding = sorted_unique(position_embedding)};
}

std::vector<Warning> warnings_for(const ParallelSizes& sizes, const Layout& layout) {
  std::vector<Warning> warnings;
  const auto clamped = [&](const char* option, std::int64_t asked, int got) {
    if (asked == got) return;
    warnings.push_back(
        {"size_clamped", fmt::format("{} {} is more than the {} ranks of the world; the legacy rules "
                                     "silently make it {}",
                                     option, asked, layout.world_size, got)});
  };
  clamped("--tensor-model-parallel-size", sizes.tensor_model_parallel_size, layout.tp);
  clamped("--pipeline-model-parallel-size", sizes.pipeline_model_parallel_size, layout.pp);
  if (!sizes.pipeline_model_parallel_split_rank) return warnings;
  const std::int64_t split = *sizes.pipeline_model_parallel_split_rank;
  if (layout.pp == 1) {
    warnings.push_back(
        {"split_rank_ignored",
         fmt::format("--pipeline-model-parallel-split-rank {} is not read when pp is 1", split)});
  } else if (split < 0) {
    warnings.push_back(
        {"split_rank_negative",
         fmt::format("--pipeline-model-parallel-split-rank {} counts from the end of the pipeline, "
                     "and no rank lies before the split",
                     split)});
  }
  return warnings;
}

}  // namespace

Layout make_legacy_layout(const ParallelSizes& sizes) {
  require_sizes(sizes);
  require_axes(sizes);
  const std::int64_t world = sizes.world_size;
  const std::int64_t tp = std::min(sizes.tensor_model_parallel_size, world);
  const std::int64_t pp = std::min(sizes.pipeline_model_parallel_size, world);
  if (world % capped_product({tp, pp}) != 0) {
    refuse({.code = "dense_div",
            .option = "--world-size",
            .numbers = fmt::format("{} ranks, tp * pp = {} * {} after clamping each to the world size", world,
                                   tp, pp),
            .rule = "the world size must be a multiple of tp * pp",
            .hint = "smaller parallel sizes"});
  }
  const PerAxis<int> grid_sizes{{narrow(tp), 1, 1, narrow(world / (tp * pp)), narrow(pp)}};
  const RankGrid grid({Axis::tp, Axis::cp, Axis::ep, Axis::dp, Axis::pp}, grid_sizes, 0);
  Layout layout{.rules = RuleBook::legacy,
                .order = kLegacyOrder,
                .world_size = narrow(world),
                .grid_size = narrow(world),
                .first_rank = 0,
                .tp = grid_sizes[Axis::tp],
                .cp = 1,
                .dp = grid_sizes[Axis::dp],
                .pp = grid_sizes[Axis::pp],
                .ep = 1,
                .etp = grid_sizes[Axis::tp],
                .edp = grid_sizes[Axis::dp],
                .instances = 1,
                .dense = grid,
                .expert = grid,
                .kinds = {},
                .creation = {},
                .warnings = {}};
  add_kinds(legacy_kind_sizes(sizes, layout.pp), layout);
  layout.warnings = warnings_for(sizes, layout);
  return layout;
}

}  // namespace sim
