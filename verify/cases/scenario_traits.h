#pragma once

/// What a scenario is, as far as a case can be set up like it: its parallel sizes, as large as cases run
/// them, and the flags of its model. Each function of at_scenario gives the value of one dimension (case.h)
/// at a scenario; a dimension that names none is drawn.
///
/// Calls   a new layer with a flag of its own adds a field here, and a function that its dimension names.

#include <cstdint>
#include <optional>

namespace verify {

struct ScenarioTraits {
  int tensor_parallel = 1;    // of the scenario
  int tp = 1;                 // as large as cases of one tensor-model-parallel group run it
  int pipeline_parallel = 1;  // of the scenario
  int expert_parallel = 1;
  int optimizer_instances = 1;
  bool is_interleaved = false;
  std::int64_t num_attention_heads = 1;
  std::int64_t num_query_groups = 1;
  bool sequence_parallel = false;
  bool gated_mlp = false;
  bool linear_bias = true;
  bool untied_output = false;
  bool rms_norm = false;
  bool rotary = false;
};

/// Whole models are trained with at most so many ranks along an axis.
inline constexpr int kMostOfAxis = 4;

namespace at_scenario {

using Value = std::optional<std::int64_t>;

Value sequence_parallel(const ScenarioTraits& traits);
Value bias(const ScenarioTraits& traits);
Value layer_norm(const ScenarioTraits& traits);
Value rms_norm(const ScenarioTraits& traits);
Value rotary(const ScenarioTraits& traits);
Value gated(const ScenarioTraits& traits);
/// The activation function: 0 is GELU, 2 is SiLU.
Value activation(const ScenarioTraits& traits);
Value tied(const ScenarioTraits& traits);
Value on(const ScenarioTraits& traits);
/// Query heads of a group: 2 stands for all numbers above 1.
Value queries(const ScenarioTraits& traits);
/// Ranks that share the key and value heads of a group.
Value ranks_a_group(const ScenarioTraits& traits);
Value tp(const ScenarioTraits& traits);
Value pp(const ScenarioTraits& traits);
/// The pipeline schedule: 2 is 1F1B, 3 is interleaved.
Value schedule(const ScenarioTraits& traits);
Value experts(const ScenarioTraits& traits);
Value instances(const ScenarioTraits& traits);

}  // namespace at_scenario

}  // namespace verify
