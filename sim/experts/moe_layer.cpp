#include "sim/experts/moe_layer.h"

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/base/refusals.h"
#include "sim/tensor/checks.h"
#include "sim/tensor/ops.h"

namespace sim {

namespace {

void require_sequence_parallel(const TopKRouterConfig& config, int tp) {
  if (tp == 1 || config.sequence_parallel) return;
  refuse({.code = "moe_tp_needs_sp",
          .option = config.name,
          .numbers = fmt::format("tp is {}, without sequence parallelism", tp),
          .rule = "ranks of a tensor-parallel group route different tokens",
          .hint = "--sequence-parallel"});
}

const MoeLayerConfig& checked(Rank& rank, const MoeLayerConfig& config) {
  Refusals refusals;
  refusals.keep([&] { require_sequence_parallel(config.router, rank.groups.get("tp").size()); });
  refusals.keep([&] { require_router(config.router); });
  refusals.keep([&] { expert_grid(rank, config.router.num_experts); });
  refusals.keep([&] { require_experts(config.experts, rank.groups.get("etp").size()); });
  refusals.throw_if_any();
  return config;
}

}  // namespace

MoeLayer::MoeLayer(Rank& rank, const MoeLayerConfig& config)
    : dispatcher_(config.dispatcher),
      router_(rank, checked(rank, config).router),
      grid_(expert_grid(rank, config.router.num_experts)),
      experts_(rank, grid_, config.experts) {
  if (config.shared_experts) shared_experts_.emplace(rank, *config.shared_experts);
}

std::vector<Parameter*> MoeLayer::parameters() {
  std::vector<Parameter*> all = joined({router_.parameters(), experts_.parameters()});
  return shared_experts_ ? joined({all, shared_experts_->parameters()}) : all;
}

/// The rows that every rank sends to every expert, where all experts are padded to their capacity.
std::optional<std::int64_t> MoeLayer::capacity(std::int64_t tokens) const {
  const auto& dropping = router_.config().token_dropping;
  if (!dropping || !dropping->pad_to_capacity) return std::nullopt;
  return expert_capacity(tokens, router_.config().routing.topk, grid_.experts, dropping->capacity_factor);
}

MoeLayer::Forward MoeLayer::forward(const Tensor& input, const RouterBatch& batch) {
  Forward forward;
  Tensor of_shared_experts;
  if (shared_experts_) {
    auto shared = shared_experts_->forward(input);
    of_shared_experts = shared.output;
    forward.saved.shared_experts = std::move(shared.saved);
  }
  auto routed = router_.forward(input, batch);
  const auto dispatcher = std::shared_ptr<TokenDispatcher>(
      make_token_dispatcher(dispatcher_, grid_, {routed.routing.map, capacity(rows_of(input))}));
  const Tensor probs = cast(routed.routing.probs, input.dtype());
  auto experts = experts_.forward(dispatcher->dispatch(input, probs));
  forward.output = dispatcher->combine(experts.output);
  if (shared_experts_) forward.output = add(forward.output, of_shared_experts);
  forward.saved.router = std::move(routed.saved);
  forward.saved.dispatcher = dispatcher;
  forward.saved.experts = std::move(experts.saved);
  forward.saved.probs_dtype = routed.routing.probs.dtype();
  forward.losses = std::move(routed.losses);
  forward.probs = routed.routing.probs;
  forward.map = std::move(routed.routing.map);
  return forward;
}

Tensor MoeLayer::backward(const Saved& saved, const Tensor& grad_output, Ratio aux_loss_scale) {
  const auto of_experts = experts_.backward(saved.experts, saved.dispatcher->combine_backward(grad_output));
  const auto of_tokens = saved.dispatcher->dispatch_backward(of_experts.rows, of_experts.probs);
  const Tensor of_probs =
      router_.backward(saved.router, cast(of_tokens.probs, saved.probs_dtype), aux_loss_scale);
  const Tensor grad = add(of_tokens.hidden, of_probs);
  if (!shared_experts_) return grad;
  return add(grad, shared_experts_->backward(*saved.shared_experts, grad_output));
}

}  // namespace sim
