#pragma once

/// The traits of a scenario from which cases are set up like it: its parallel sizes, and its model. A
/// function of at_scenario returns the value of one dimension (case.h). A dimension without one is drawn.
///
/// Calls   A new layer with a flag of its own adds a function here, to which its dimension points.

#include <cstdint>
#include <optional>

#include "sim/model/gpt_config.h"

namespace verify {

struct ScenarioTraits {
  int tensor_parallel = 1;                   // tp of the scenario
  int tp = 1;                                // tp with which cases of one tensor-model-parallel group run
  int context_parallel = 1;                  // cp of the scenario
  std::optional<std::int64_t> cp_comm_type;  // sim::CpCommType, where all layers have the same one
  int pipeline_parallel = 1;                 // pp of the scenario
  int expert_parallel = 1;
  int expert_tensor_parallel = 1;
  int optimizer_instances = 1;
  bool is_interleaved = false;
  sim::GptConfig model = {};  // its heads are as many as tp if the scenario does not give them
};

/// The most ranks along one axis with which cases run whole models.
inline constexpr int kMostOfAxis = 4;

namespace at_scenario {

using Value = std::optional<std::int64_t>;

Value sequence_parallel(const ScenarioTraits& traits);
Value bias(const ScenarioTraits& traits);
/// The biases of a layer with attention: 0 is none, 1 is one for each linear layer, 2 is that of QKV alone.
Value biases(const ScenarioTraits& traits);
Value layer_norm(const ScenarioTraits& traits);
Value rms_norm(const ScenarioTraits& traits);
Value rotary(const ScenarioTraits& traits);
Value qk_layernorm(const ScenarioTraits& traits);
/// The norm of queries and keys: 0 is none, 1 is RMSNorm, 2 is LayerNorm.
Value head_norm(const ScenarioTraits& traits);
/// The window of a layer: 0 is none; 1 sees the token itself alone, and each more one token before it.
Value window(const ScenarioTraits& traits);
/// The attention of a model: 0 is self-attention, 1 latent attention, 2 that with a latent state of queries.
Value latent(const ScenarioTraits& traits);
Value gated(const ScenarioTraits& traits);
/// The activation function: 0 is GELU, 2 is SiLU.
Value activation(const ScenarioTraits& traits);
Value tied(const ScenarioTraits& traits);
/// Returns 1 for every scenario.
Value on(const ScenarioTraits& traits);
/// Returns the query heads of a group: 1, or 2 for any number above 1.
Value queries(const ScenarioTraits& traits);
/// Returns the number of ranks that share the key and value heads of a group.
Value ranks_a_group(const ScenarioTraits& traits);
Value tp(const ScenarioTraits& traits);
Value cp(const ScenarioTraits& traits);
Value cp_comm_type(const ScenarioTraits& traits);
Value pp(const ScenarioTraits& traits);
/// The pipeline schedule: 2 is 1F1B, 3 is interleaved.
Value schedule(const ScenarioTraits& traits);
Value experts(const ScenarioTraits& traits);
/// Whether the scenario has expert parallelism.
Value has_experts(const ScenarioTraits& traits);
Value expert_tensor_parallel(const ScenarioTraits& traits);
Value instances(const ScenarioTraits& traits);

}  // namespace at_scenario

}  // namespace verify
