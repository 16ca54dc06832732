#pragma once

/// The options about experts, their router and their dispatcher, with Megatron's defaults where they are not
/// given.
///
/// Exact   Coefficients are the decimal numbers that are given, as ratios. A model without experts has
///         num_experts 0, and none of its other values has an effect.
/// Errors  not_a_number: a coefficient that is no decimal number of at least 0, or one whose ratio needs more
///         than 31 bits; layer_pattern: a pattern of layers that cannot be read;
///         expert_options_without_experts: an option without effect.
/// Source  Megatron-LM, core/transformer/transformer_config.py.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/tensor/kernel_parameters.h"
#include "verify/vocabulary/layer_pattern.h"

namespace verify {

class Settings;

/// A way to balance the load of the experts.
struct LoadBalancing {
  std::string type;  // one of the choices of --moe-router-load-balancing-type
  sim::Ratio coefficient = {0, 1};
};

struct ExpertOptions {
  std::int64_t num_experts = 0;
  LayerPattern moe_layer_freq = {.every = 1, .entries = {}};
  std::int64_t moe_ffn_hidden_size = 0;  // elements inside an expert

  std::int64_t moe_router_topk = 2;
  std::string score_function = "softmax";  // softmax, sigmoid or sqrtsoftplus
  bool pre_softmax = false;
  sim::Ratio topk_scaling_factor = {1, 1};
  std::int64_t num_groups = 0;  // 0: the choice is not limited to groups
  std::int64_t group_topk = 0;
  bool expert_bias = false;
  sim::Ratio bias_update_rate = {1, 1000};
  std::vector<LoadBalancing> load_balancing = {{.type = "aux_loss"}};
  std::optional<sim::Ratio> z_loss_coefficient = std::nullopt;

  std::optional<double> capacity_factor = std::nullopt;  // nothing: no token is dropped
  std::string token_drop_policy = "probs";               // probs or position
  bool pad_to_capacity = false;
  std::string dispatcher = "allgather";  // allgather, alltoall or flex

  std::int64_t shared_expert_intermediate_size = 0;  // 0: no shared experts
  bool shared_expert_gate = false;

  /// Whether a layer has experts, by its number in the model.
  bool are_in(std::int64_t layer) const { return num_experts > 0 && has_experts(moe_layer_freq, layer); }
};

ExpertOptions expert_options(const Settings& settings);

/// Refuses options about experts in a model without experts. Megatron ignores them, as a run of --from may,
/// too.
void require_effective_expert_options(const Settings& settings);

}  // namespace verify
