#pragma once

/// The mixture of experts that takes the place of the MLP in a transformer layer: router, dispatcher,
/// experts, and the shared experts that every token goes through as well.
///
/// Shapes  input and output [T, H]: the tokens that this rank owns. With sequence_parallel these are [T/tp,
///         H] of a sequence; without it, tp is 1.
/// Calls   forward: those of SharedExperts, of TopKRouter and of the dispatcher, in this order. backward:
///         their conjugates, those of SharedExperts last.
/// Errors  moe_tp_needs_sp: tp above 1 without sequence parallelism, where every rank would route the same
///         tokens; those of its parts. All problems are reported together.
/// Exact   The output of a token is the sum of its experts' outputs, each with its probability, and then of
///         the shared experts' output. Which experts a token chooses depends on its own hidden state alone,
///         unless a capacity drops tokens, which depends on the tokens of this rank.
/// Source  Shazeer et al. 2017; Megatron-LM, moe/moe_layer.py. --moe-latent-size is not modelled.

#include <memory>
#include <optional>

#include "sim/experts/grouped_mlp.h"
#include "sim/experts/router.h"
#include "sim/experts/shared_experts.h"
#include "sim/experts/token_dispatcher.h"

namespace sim {

struct MoeLayerConfig {
  TopKRouterConfig router;
  GroupedMlpConfig experts;
  std::optional<SharedExpertsConfig> shared_experts = std::nullopt;
  TokenDispatcherType dispatcher = TokenDispatcherType::allgather;
};

class MoeLayer {
 public:
  MoeLayer(Rank& rank, const MoeLayerConfig& config);

  struct Saved {
    TopKRouter::Saved router;
    std::shared_ptr<const TokenDispatcher> dispatcher;
    GroupedMlp::Saved experts;
    std::optional<SharedExperts::Saved> shared_experts;
    DType probs_dtype = DType::f32;
  };
  struct Forward {
    Tensor output;
    Saved saved;
    std::vector<AttachedLoss> losses;  // of the router
    Tensor probs;                      // [T, E], of this rank's tokens
    RoutingMap map;                    // the same
  };
  Forward forward(const Tensor& input, const RouterBatch& batch = {});
  /// Returns the gradient of the input, and adds to main_grad of all parameters. `aux_loss_scale` is that of
  /// TopKRouter.
  Tensor backward(const Saved& saved, const Tensor& grad_output, Ratio aux_loss_scale = {1, 1});

  TopKRouter& router() { return router_; }
  GroupedMlp& experts() { return experts_; }
  /// Returns the shared experts, or null if there are none.
  SharedExperts* shared_experts() { return shared_experts_ ? &*shared_experts_ : nullptr; }
  std::vector<Parameter*> parameters();

 private:
  std::optional<std::int64_t> capacity(std::int64_t tokens) const;

  TokenDispatcherType dispatcher_;
  TopKRouter router_;
  ExpertGrid grid_;
  GroupedMlp experts_;
  std::optional<SharedExperts> shared_experts_;
};

}  // namespace sim
