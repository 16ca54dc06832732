#pragma once

/// Checks that both rule books begin with: every size is a whole number from 1 to kMaxSize, the grid fits its
/// world.

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

/// Refuses virtual chunks, even one, on a single pipeline rank.
void check_virtual_pipeline(std::optional<std::int64_t> virtual_pipeline_model_parallel_size,
                            std::int64_t pipeline_model_parallel_size);

/// The ranks of the grid: local_world_size, or the whole world.
std::int64_t grid_size(const ParallelSizes& sizes);

/// The product of sizes up to kMaxSize each, or kMaxSize + 1 where it is larger than that.
std::int64_t capped_product(std::initializer_list<std::int64_t> factors);

}  // namespace sim
