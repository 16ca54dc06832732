#include "sim/experts/router.h"

#include <fmt/format.h>
#include <utility>

#include "sim/base/error.h"
#include "sim/base/refusals.h"
#include "sim/experts/expert_bias.h"
#include "sim/experts/host_copies.h"
#include "sim/tensor/checks.h"
#include "sim/tensor/matmul.h"
#include "sim/tensor/ops.h"

namespace sim {

namespace {

[[noreturn]] void refuse_router(std::string option, std::string numbers, const char* rule, const char* hint) {
  refuse({.code = "router_config",
          .option = std::move(option),
          .numbers = std::move(numbers),
          .rule = rule,
          .hint = hint});
}

bool is_float(DType dtype) { return dtype != DType::field && dtype != DType::i32; }

TopKRouterConfig checked(TopKRouterConfig config) {
  const TopKRoutingConfig& routing = config.routing;
  Refusals refusals;
  refusals.keep([&] {
    if (config.num_experts < 1 || config.hidden_size < 1) {
      refuse_router(config.name,
                    fmt::format("{} experts, hidden size {}", config.num_experts, config.hidden_size),
                    "a router has at least one expert and one feature", "sizes of at least 1");
    }
    require_topk_routing(routing, config.num_experts, config.name);
  });
  refusals.keep([&] {
    if (routing.group_topk != 0 && routing.topk % routing.group_topk != 0) {
      refuse_router(config.name + " group_topk",
                    fmt::format("topk {} over {} groups", routing.topk, routing.group_topk),
                    "a group is scored by its topk / group_topk best experts; Megatron rounds this down",
                    "a group_topk that divides topk");
    }
  });
  refusals.keep([&] {
    if (config.expert_bias && routing.score_function == ScoreFunction::softmax) {
      refuse_router(config.name + " expert_bias", "an expert bias with softmax",
                    "a bias is added to scores that do not depend on each other",
                    "the score function sigmoid or sqrtsoftplus");
    }
  });
  refusals.keep([&] {
    const DType product = config.router_dtype.value_or(config.dtype);
    if (product != config.dtype && !(is_float(product) && is_float(config.dtype))) {
      refuse_router(config.name + " router_dtype",
                    fmt::format("{} for hidden states of {}", name_of(product), name_of(config.dtype)),
                    "the product is computed in the dtype of the hidden states or in another float",
                    "f32 for hidden states of bf16");
    }
  });
  refusals.throw_if_any();
  const bool compares_probs = !routing.force_load_balancing;
  if (config.token_dropping && !compares_probs) config.token_dropping->drop_policy = DropPolicy::position;
  return config;
}

Tensor rows_joined(const std::vector<Tensor>& rows) {
  Tensor all = rows.front().device().empty(rows.front().dtype(),
                                           {static_cast<std::int64_t>(rows.size()), rows.front().count()});
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto row = static_cast<std::int64_t>(i);
    Tensor place = all.rows(row, row + 1);
    copy(rows[i].reshaped(place.shape()), place);
  }
  return all;
}

}  // namespace

void require_router(const TopKRouterConfig& config) { checked(config); }

TopKRouter::TopKRouter(Rank& rank, TopKRouterConfig config)
    : config_(checked(std::move(config))),
      groups_{&rank.groups.get("tp-cp"), &rank.groups.get("tp-dp-cp")},
      weight_(make_parameter(rank, config_.name + ".weight", config_.dtype,
                             {config_.num_experts, config_.hidden_size}, {}, config_.initial)) {
  weight_.attributes.sequence_parallel = config_.sequence_parallel;
  if (!config_.expert_bias) return;
  const DType dtype = config_.router_dtype.value_or(config_.dtype);
  expert_bias_ = filled(rank.device, sum_dtype(dtype), {config_.num_experts}, 0);
  local_tokens_per_expert_ = filled(rank.device, DType::i32, {config_.num_experts}, 0);
}

TopKRouter::Forward TopKRouter::forward(const Tensor& hidden, const RouterBatch& batch) {
  require_own(hidden, "router");
  const DType dtype = config_.router_dtype.value_or(config_.dtype);
  Forward result{.saved = {.hidden = cast(hidden, dtype), .hidden_dtype = hidden.dtype()}};
  const Tensor logits = matmul(result.saved.hidden, transposed(cast(weight_.value, dtype)));
  if (batch.counts && config_.z_loss_coefficient) {
    result.saved.z_loss =
        z_loss(logits, batch.padding, {*config_.z_loss_coefficient, config_.per_token_loss}, groups_);
    result.losses.push_back(result.saved.z_loss->loss);
  }
  TopKRoutingForward routed = topk_routing(logits, config_.routing, expert_bias_);
  result.saved.routing = std::move(routed.saved);
  result.routing = std::move(routed.routing);
  if (config_.token_dropping) {
    TokenDroppingForward kept = drop_tokens(result.routing, config_.routing.topk, *config_.token_dropping);
    result.saved.token_dropping = std::move(kept.saved);
    result.routing = std::move(kept.routing);
  }
  if (!batch.counts) return result;
  AuxLossesForward aux = aux_losses({logits, batch.batch_size, batch.padding},
                                    {.losses = config_.aux_losses,
                                     .topk = config_.routing.topk,
                                     .score_function = config_.routing.score_function,
                                     .per_token_loss = config_.per_token_loss,
                                     .counts_reduced_in_place = config_.counts_reduced_in_place,
                                     .force_load_balancing = config_.routing.force_load_balancing},
                                    groups_, global_tokens_);
  result.losses.insert(result.losses.end(), aux.losses.begin(), aux.losses.end());
  result.saved.aux_losses = std::move(aux.saved);
  if (config_.expert_bias) count_tokens(result.routing.map, batch.padding);
  return result;
}

void TopKRouter::count_tokens(const RoutingMap& map, const PaddingMask& padding) {
  const std::int64_t valid = valid_tokens(padding, map.tokens());
  const std::vector<std::int64_t> all = map.tokens_per_expert();
  std::vector<std::int32_t> counts(all.begin(), all.end());
  if (valid < map.tokens()) {  // which experts padding has chosen is known of pairs alone
    const bool is_in_turn = map.is_counted() && !config_.token_dropping;
    const RoutingMap pairs =
        is_in_turn ? RoutingMap::in_turn(map.tokens(), map.experts(), config_.routing.topk) : map;
    for (std::int64_t t = 0; t < map.tokens(); ++t) {
      if (padding[static_cast<std::size_t>(t)] == 0) continue;
      for (const std::int64_t e : pairs.experts_of(t)) --counts[static_cast<std::size_t>(e)];
    }
  }
  Tensor& sum = local_tokens_per_expert_;
  add_to(sum, device_ids(sum.device(), sum.shape(), counts));
}

Tensor TopKRouter::backward(const Saved& saved, const Tensor& grad_probs, Ratio aux_loss_scale) {
  const Tensor grad_routed =
      saved.token_dropping ? drop_tokens_backward(*saved.token_dropping, grad_probs) : grad_probs;
  Tensor grad_logits = topk_routing_backward(saved.routing, grad_routed);
  add_aux_losses_backward(saved.aux_losses, aux_loss_scale, grad_logits);
  if (saved.z_loss) add_z_loss_backward(*saved.z_loss, aux_loss_scale, grad_logits);
  if (sum_dtype(grad_logits.dtype()) == weight_.main_grad.dtype()) {
    add_matmul(transposed(grad_logits), saved.hidden, weight_.main_grad);
  } else {
    const Tensor grad_weight = matmul(transposed(grad_logits), saved.hidden);
    add_to(weight_.main_grad, cast(grad_weight, weight_.main_grad.dtype()));
  }
  return cast(matmul(grad_logits, cast(weight_.value, grad_logits.dtype())), saved.hidden_dtype);
}

void update_expert_bias(Rank& rank, std::span<TopKRouter* const> routers, Ratio rate) {
  std::vector<Tensor> biases, tokens;
  std::vector<TopKRouter*> biased;
  for (TopKRouter* router : routers) {
    if (!router->config().expert_bias) continue;
    biased.push_back(router);
    biases.push_back(router->expert_bias());
    tokens.push_back(router->local_tokens_per_expert());
  }
  if (biased.empty()) return;
  const Tensor updated =
      updated_expert_bias(rows_joined(tokens), rows_joined(biases), rate, rank.groups.get("tp-dp-cp"));
  for (std::size_t i = 0; i < biased.size(); ++i) {
    const auto row = static_cast<std::int64_t>(i);
    copy(updated.rows(row, row + 1).flat(), biased[i]->expert_bias());
    fill(biased[i]->local_tokens_per_expert(), 0);
  }
}

}  // namespace sim
