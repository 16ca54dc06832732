#include "sim/layout/size_rules.h"

#include <fmt/format.h>
#include <limits>

#include "sim/base/check.h"
#include "sim/base/error.h"
#include "sim/base/refusals.h"

namespace sim {

void require_size(const std::string& option, std::int64_t size) {
  if (size >= 1 && size <= kMaxSize) return;
  refuse({.code = "size_range",
          .option = option,
          .numbers = fmt::format("{} is {}", option, size),
          .rule = fmt::format("a size is a whole number from 1 to {}", kMaxSize),
          .hint = size < 1 ? "1 or more" : "a smaller number"});
}

namespace {

/// Checks all sizes of a layout. All that are out of range are refused together.
void require_all_sizes(const ParallelSizes& sizes) {
  Refusals refusals;
  const auto keep = [&](const char* option, std::optional<std::int64_t> size) {
    if (size) refusals.keep([&] { require_size(option, *size); });
  };
  keep("--world-size", sizes.world_size);
  keep("--tensor-model-parallel-size", sizes.tensor_model_parallel_size);
  keep("--pipeline-model-parallel-size", sizes.pipeline_model_parallel_size);
  keep("--context-parallel-size", sizes.context_parallel_size);
  keep("--expert-model-parallel-size", sizes.expert_model_parallel_size);
  keep("--num-distributed-optimizer-instances", sizes.num_distributed_optimizer_instances);
  keep("--virtual-pipeline-model-parallel-size", sizes.virtual_pipeline_model_parallel_size);
  keep("--expert-tensor-parallel-size", sizes.expert_tensor_parallel_size);
  for (const std::int64_t size : sizes.hierarchical_context_parallel_sizes)
    keep("--hierarchical-context-parallel-sizes", size);
  keep("--local-world-size", sizes.local_world_size);
  refusals.throw_if_any();
}

}  // namespace

void require_sizes(const ParallelSizes& sizes) {
  require_all_sizes(sizes);
  if (sizes.hierarchical_context_parallel_sizes.size() > kMaxHierarchicalLevels) {
    refuse({.code = "hcp_levels",
            .option = "--hierarchical-context-parallel-sizes",
            .numbers = fmt::format("{} levels", sizes.hierarchical_context_parallel_sizes.size()),
            .rule = fmt::format("a context-parallel group has at most {} levels", kMaxHierarchicalLevels),
            .hint = "leave out the levels of size 1"});
  }
  constexpr std::int64_t kLastRank = std::numeric_limits<std::int32_t>::max();
  if (sizes.rank_offset < 0 || sizes.rank_offset > kLastRank - kMaxSize) {
    refuse({.code = "rank_offset_range",
            .option = "--rank-offset",
            .numbers = fmt::format("--rank-offset is {}", sizes.rank_offset),
            .rule = fmt::format("the first rank is a whole number from 0 to {}", kLastRank - kMaxSize),
            .hint = "0, the default"});
  }
  if (!sizes.local_world_size) return;
  if (sizes.rank_offset + *sizes.local_world_size > sizes.world_size) {
    refuse({.code = "grid_outside_world",
            .option = "--local-world-size",
            .numbers = fmt::format("{} ranks from rank {} on end at rank {}, the world has ranks 0 to {}",
                                   *sizes.local_world_size, sizes.rank_offset,
                                   sizes.rank_offset + *sizes.local_world_size - 1, sizes.world_size - 1),
            .rule = "rank offset + local world size may not exceed the world size",
            .hint = size_hint("--world-size", sizes.rank_offset + *sizes.local_world_size,
                              "a smaller --rank-offset")});
  }
}

void require_pipeline(std::optional<std::int64_t> virtual_pipeline_model_parallel_size,
                      std::int64_t pipeline_model_parallel_size) {
  if (virtual_pipeline_model_parallel_size && pipeline_model_parallel_size == 1) {
    refuse({.code = "vpp_needs_pp",
            .option = "--virtual-pipeline-model-parallel-size",
            .numbers = fmt::format("{} chunks, but pp is 1", *virtual_pipeline_model_parallel_size),
            .rule = "a virtual pipeline needs more than one pipeline stage (even for 1 chunk)",
            .hint = "leave the option out, or --pipeline-model-parallel-size 2 or more"});
  }
  const std::int64_t chunks = virtual_pipeline_model_parallel_size.value_or(1);
  if (capped_product({pipeline_model_parallel_size, chunks}) <= kMaxStages) return;
  refuse({.code = "stages_range",
          .option = "--pipeline-model-parallel-size",
          .numbers = fmt::format("{} pipeline ranks of {} chunks", pipeline_model_parallel_size, chunks),
          .rule = fmt::format("a pipeline has at most {} stages", kMaxStages),
          .hint = "fewer ranks or chunks"});
}

int narrow(std::int64_t size) {
  SIM_CHECK(size >= 0 && size <= std::numeric_limits<std::int32_t>::max());
  return static_cast<int>(size);
}

std::string size_hint(const std::string& option, std::int64_t size, const std::string& otherwise) {
  return size >= 1 && size <= kMaxSize ? fmt::format("{} {}", option, size) : otherwise;
}

std::int64_t grid_size(const ParallelSizes& sizes) {
  return sizes.local_world_size.value_or(sizes.world_size);
}

std::int64_t capped_product(std::initializer_list<std::int64_t> factors) {
  std::int64_t product = 1;
  for (const std::int64_t factor : factors) {
    product *= factor;  // both factors are at most kMaxSize + 1 = 2^24 + 1, so there is no overflow
    if (product > kMaxSize) product = kMaxSize + 1;
  }
  return product;
}

}  // namespace sim
