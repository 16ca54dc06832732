#pragma once

/// The router of a layer of experts: it chooses the topk experts of each token, and the probability by which
/// each expert's output is multiplied.
///
/// Shapes  hidden [T, H], T tokens of this rank;  weight [E, H], replicated;  probs [T, E], in router_dtype.
///         Token t is position t / batch of sequence t % batch.
/// Calls   forward: those of aux_loss.h. backward: none; main_grad of the weight has the gradient of this
///         rank's tokens, and with sequence_parallel the attribute that sums it over tp
///         (sim/parallel/sequence_parallel_grads.h). update_expert_bias: that of expert_bias.h.
/// Errors  router_config: sizes below 1; a number of surviving groups that does not divide topk, which
///         Megatron rounds down without a word; an expert bias with softmax; a product in a dtype that hidden
///         states cannot be cast to; those of topk_routing.h, aux_loss.h and token_dropping.h.
/// Exact   logits are one product, computed in router_dtype if there is one, otherwise in dtype (bf16 is
///         added in f32 and rounded once). The steps are z-loss, routing, dropping, and auxiliary losses,
///         which do not see what is dropped. The counts of the expert bias do. The gradient of a loss goes to
///         the logits, so it arrives even where nobody sends a gradient of the probabilities; in Megatron it
///         is then lost.
/// Source  Megatron-LM, transformer/moe/router.py: TopKRouter, --moe-router-dtype.

#include <optional>
#include <span>
#include <string>

#include "sim/experts/aux_loss.h"
#include "sim/experts/token_dropping.h"
#include "sim/experts/topk_routing.h"
#include "sim/experts/z_loss.h"
#include "sim/parallel/parameter.h"

namespace sim {

struct TopKRouterConfig {
  std::string name;
  DType dtype = DType::f32;
  std::optional<DType> router_dtype;
  std::int64_t hidden_size = 0;
  std::int64_t num_experts = 0;
  TopKRoutingConfig routing = {};
  bool expert_bias = false;
  std::vector<AuxLoss> aux_losses = {};
  std::optional<Ratio> z_loss_coefficient;
  bool per_token_loss = false;
  bool counts_reduced_in_place = true;  // as Megatron counts padded tokens (aux_loss.h)
  std::optional<TokenDroppingConfig> token_dropping;
  bool sequence_parallel = false;
  Initial initial = {};
};

/// What a router knows of a microbatch.
struct RouterBatch {
  std::int64_t batch_size = 1;
  PaddingMask padding = {};
  /// Whether losses are attached and tokens counted for the expert bias. They are not where nothing is
  /// trained, nor in the first of the two forward runs of a recomputed layer (transformer_layer.h).
  bool counts = true;
};

/// Refuses an invalid configuration; all problems are reported together.
void require_router(const TopKRouterConfig& config);

class TopKRouter {
 public:
  TopKRouter(Rank& rank, TopKRouterConfig config);

  struct Saved {
    Tensor hidden;  // in the dtype of the product
    DType hidden_dtype;
    TopKRoutingSaved routing;
    std::optional<TokenDroppingSaved> token_dropping;
    AuxLossesSaved aux_losses;
    std::optional<ZLossForward> z_loss;
  };
  struct Forward {
    Routing routing;
    Saved saved;
    std::vector<AttachedLoss> losses;  // the z-loss first, then those of aux_loss.h in their order
  };
  Forward forward(const Tensor& hidden, const RouterBatch& batch = {});
  /// Returns the gradient of hidden, and adds to the weight's main_grad. `aux_loss_scale` is the factor of
  /// the auxiliary losses and of the z-loss: the loss scale divided by the number of microbatches, times cp.
  Tensor backward(const Saved& saved, const Tensor& grad_probs, Ratio aux_loss_scale = {1, 1});

  /// Forgets the microbatches whose counts global_aux_loss averages. Call it at the end of a step.
  void reset_global_aux_loss_tracker() { global_tokens_ = {}; }
  const GlobalTokensPerExpert& global_tokens_per_expert() const { return global_tokens_; }

  const TopKRouterConfig& config() const { return config_; }
  Parameter& weight() { return weight_; }
  std::vector<Parameter*> parameters() { return {&weight_}; }
  /// Returns the bias [E], which is no parameter; Tensor() without expert_bias.
  Tensor& expert_bias() { return expert_bias_; }
  /// Returns i32 [E]: this rank's tokens of each expert since the last update_expert_bias().
  Tensor& local_tokens_per_expert() { return local_tokens_per_expert_; }

 private:
  void count_tokens(const RoutingMap& map, const PaddingMask& padding);

  TopKRouterConfig config_;
  AuxLossGroups groups_;
  Parameter weight_;
  Tensor expert_bias_;
  Tensor local_tokens_per_expert_;
  GlobalTokensPerExpert global_tokens_;
};

/// Moves the expert biases of all routers by one step of `rate`, with one call, and sets their counts to 0.
/// Routers without a bias are left out. Every rank passes the same routers in the same order.
void update_expert_bias(Rank& rank, std::span<TopKRouter* const> routers, Ratio rate);

}  // namespace sim
