#include "verify/cases/scenario_traits.h"

#include <algorithm>

namespace verify::at_scenario {

namespace {

Value flag(bool is_set) { return is_set ? 1 : 0; }

/// Returns the size of a scenario, up to kMostOfAxis. A size of 1 gives nothing, so that the case draws
/// its own.
Value size_above_one(int size) { return size > 1 ? Value(std::min(size, kMostOfAxis)) : std::nullopt; }

}  // namespace

Value sequence_parallel(const ScenarioTraits& traits) {
  return flag(traits.model.sequence_parallel && traits.tp > 1);
}
Value bias(const ScenarioTraits& traits) { return flag(traits.model.bias); }
Value biases(const ScenarioTraits& traits) {
  return !traits.model.bias && traits.model.add_qkv_bias ? 2 : bias(traits);
}
Value layer_norm(const ScenarioTraits& traits) { return flag(!traits.model.has_rms_norm()); }
Value rms_norm(const ScenarioTraits& traits) { return flag(traits.model.has_rms_norm()); }
Value rotary(const ScenarioTraits& traits) { return flag(!traits.model.has_learned_positions()); }
Value window(const ScenarioTraits& traits) { return traits.model.window.size >= 0 ? 2 : 0; }
Value qk_layernorm(const ScenarioTraits& traits) { return flag(traits.model.qk_layernorm); }
Value head_norm(const ScenarioTraits& traits) {
  if (!traits.model.qk_layernorm) return 0;
  return traits.model.has_rms_norm() ? 1 : 2;
}
Value latent(const ScenarioTraits& traits) {
  if (!traits.model.latent) return 0;
  return traits.model.latent->q_lora_rank > 0 ? 2 : 1;
}
Value gated(const ScenarioTraits& traits) { return flag(traits.model.gated); }
Value activation(const ScenarioTraits& traits) { return traits.model.gated ? 2 : 0; }
Value tied(const ScenarioTraits& traits) { return flag(!traits.model.untie_embeddings_and_output_weights); }
Value on(const ScenarioTraits&) { return 1; }
Value queries(const ScenarioTraits& traits) {
  return traits.model.num_attention_heads > traits.model.num_query_groups ? 2 : 1;
}

Value ranks_a_group(const ScenarioTraits& traits) {
  const std::int64_t groups = traits.model.num_query_groups;
  const std::int64_t ranks = groups < traits.tensor_parallel ? traits.tensor_parallel / groups : 1;
  return traits.tp % ranks == 0 ? ranks : traits.tp;
}

Value tp(const ScenarioTraits& traits) { return std::min(traits.tensor_parallel, kMostOfAxis); }
Value cp(const ScenarioTraits& traits) { return size_above_one(traits.context_parallel); }
Value cp_comm_type(const ScenarioTraits& traits) { return traits.cp_comm_type; }
Value pp(const ScenarioTraits& traits) { return std::min(traits.pipeline_parallel, kMostOfAxis); }
Value schedule(const ScenarioTraits& traits) { return traits.is_interleaved ? 3 : 2; }
Value has_experts(const ScenarioTraits& traits) { return flag(traits.expert_parallel > 1); }
Value experts(const ScenarioTraits& traits) { return size_above_one(traits.expert_parallel); }
Value expert_tensor_parallel(const ScenarioTraits& traits) {
  return size_above_one(traits.expert_tensor_parallel);
}
Value instances(const ScenarioTraits& traits) { return size_above_one(traits.optimizer_instances); }

}  // namespace verify::at_scenario
