#pragma once

/// The options of experts under the names of Megatron's flags. The description of a model holds them
/// (model/gpt_config.h), and the parts of a layer with experts read them.
///
/// Exact   What each option means is in the header of the part that reads it: score_function.h,
///         topk_routing.h, aux_loss.h, token_dropping.h, token_dispatcher.h.

#include <cstdint>

#include "sim/tensor/kernel_parameters.h"

namespace sim {

enum class ScoreFunction : std::uint8_t { softmax, sigmoid, sqrtsoftplus };

struct TopKRoutingConfig {
  std::int64_t topk = 1;
  ScoreFunction score_function = ScoreFunction::softmax;
  bool pre_softmax = false;  // for softmax alone
  Ratio scaling_factor = {1, 1};
  /// Experts are chosen in turn, whatever the scores are: token t goes to the experts t k, t k + 1, ...,
  /// modulo E. Every expert then has as many tokens as any other, or one more or less. A router that drops
  /// tokens then keeps the first ones.
  bool force_load_balancing = false;
  std::int64_t num_groups = 0;  // 0: the choice is not limited to groups
  std::int64_t group_topk = 0;
};

enum class AuxLossKind : std::uint8_t { aux_loss, seq_aux_loss, global_aux_loss };

struct AuxLoss {
  AuxLossKind kind = AuxLossKind::aux_loss;
  Ratio coefficient = {1, 100};
};

enum class DropPolicy : std::uint8_t { probs, position };

struct TokenDroppingConfig {
  double capacity_factor = 1;
  DropPolicy drop_policy = DropPolicy::probs;
  bool pad_to_capacity = false;
};

enum class TokenDispatcherType : std::uint8_t { allgather, alltoall, flex };

}  // namespace sim
