#pragma once

/// The sizes that a user asks for, named as Megatron names them. Nothing is checked here: make_layout
/// (layout.h) checks everything before it builds anything. The fields are 64 bits wide, so no input can
/// wrap around.

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sim {

/// The largest number of ranks of a layout, and the largest value of any single size: 16,777,216.
inline constexpr std::int64_t kMaxSize = std::int64_t{1} << 24;
/// The largest number of stages (ranks * chunks) of a pipeline: 1,048,576.
inline constexpr std::int64_t kMaxStages = std::int64_t{1} << 20;
/// The largest number of hierarchical levels of a context-parallel group.
inline constexpr std::size_t kMaxHierarchicalLevels = 32;

inline constexpr const char* kDefaultOrder = "tp-cp-ep-dp-pp";
/// The order that --use-tp-pp-dp-mapping selects.
inline constexpr const char* kTpPpDpOrder = "tp-cp-ep-pp-dp";

enum class RuleBook { megatron, legacy };

struct ParallelSizes {
  std::int64_t world_size = 0;                    // ranks in the world
  std::optional<std::int64_t> local_world_size;   // ranks in the grid, within the world; absent: world_size
  std::int64_t rank_offset = 0;                   // first rank of the grid
  std::int64_t tensor_model_parallel_size = 1;    // tp
  std::int64_t pipeline_model_parallel_size = 1;  // pp
  std::optional<std::int64_t> virtual_pipeline_model_parallel_size;  // chunks per pipeline rank
  std::int64_t context_parallel_size = 1;                            // cp
  std::int64_t expert_model_parallel_size = 1;                       // ep
  std::optional<std::int64_t> expert_tensor_parallel_size;           // etp; absent: tp
  std::int64_t num_distributed_optimizer_instances = 1;
  std::vector<std::int64_t> hierarchical_context_parallel_sizes;   // empty: none
  std::optional<std::int64_t> pipeline_model_parallel_split_rank;  // rule book legacy only
  std::string order = kDefaultOrder;                               // rule book megatron only
  /// The pipeline ranks of group embd, ascending; empty: not known, and made of the first and the last. Rule
  /// book megatron only.
  std::vector<std::int64_t> embedding_pipeline_ranks;

  auto operator<=>(const ParallelSizes&) const = default;
};

}  // namespace sim
