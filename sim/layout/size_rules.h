#pragma once

/// The checks with which both rule books begin: every size is a whole number from 1 to kMaxSize, the grid
/// fits into its world, and virtual chunks need a pipeline.
///
/// Errors  size_range, rank_offset_range, grid_outside_world, hcp_levels, vpp_needs_pp, stages_range.

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>

#include "sim/layout/parallel_sizes.h"

namespace sim {

/// Refuses a size below 1 or above kMaxSize. `option` is the option as the user writes it.
void require_size(const std::string& option, std::int64_t size);

/// Checks all sizes of a layout, and the place of its grid in the world.
void require_sizes(const ParallelSizes& sizes);

/// Refuses virtual chunks, even one, on a single pipeline rank. Refuses more than kMaxStages stages.
void require_pipeline(std::optional<std::int64_t> virtual_pipeline_model_parallel_size,
                      std::int64_t pipeline_model_parallel_size);

/// Returns the number of ranks in the grid: local_world_size, or the whole world.
std::int64_t grid_size(const ParallelSizes& sizes);

/// Returns a checked size as the 32-bit number that ranks and counts use.
int narrow(std::int64_t size);

/// Returns "--option N" if N is a size that may be asked for, else `otherwise`.
std::string size_hint(const std::string& option, std::int64_t size, const std::string& otherwise);

/// Returns the product of sizes of at most kMaxSize each, or kMaxSize + 1 if the product is larger than
/// kMaxSize.
std::int64_t capped_product(std::initializer_list<std::int64_t> factors);

}  // namespace sim
