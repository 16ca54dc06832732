#pragma once

/// Checks that both rule books begin with: every size is a whole number from 1 to kMaxSize, the grid fits its
/// world, chunks need a pipeline.
///
/// Errors  size_range, rank_offset_range, grid_outside_world, hcp_levels, vpp_needs_pp, stages_range.

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>

#include "sim/layout/parallel_sizes.h"

namespace sim {

/// Refuses a size below 1 or above kMaxSize. `option` as the user writes it.
void check_size(const std::string& option, std::int64_t size);

/// All sizes of a layout, and the place of its grid in the world.
void check_sizes(const ParallelSizes& sizes);

/// Refuses virtual chunks, even one, on a single pipeline rank; and more than kMaxStages stages.
void check_pipeline(std::optional<std::int64_t> virtual_pipeline_model_parallel_size,
                    std::int64_t pipeline_model_parallel_size);

/// The ranks of the grid: local_world_size, or the whole world.
std::int64_t grid_size(const ParallelSizes& sizes);

/// A checked size in the 32 bits that ranks and counts have.
int narrow(std::int64_t size);

/// "--option N" when N is a size that may be asked for, else `otherwise`.
std::string size_hint(const std::string& option, std::int64_t size, const std::string& otherwise);

/// The product of sizes up to kMaxSize each, or kMaxSize + 1 where it is larger than that.
std::int64_t capped_product(std::initializer_list<std::int64_t> factors);

}  // namespace sim
