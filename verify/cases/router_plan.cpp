#include "verify/cases/router_plan.h"

#include <cmath>
#include <fmt/format.h>

#include "sim/parallel/sequence_parallel_grads.h"
#include "sim/tensor/checks.h"
#include "sim/tensor/ops.h"

namespace verify {

using sim::Tensor;

ChoicePlan::Groups ChoicePlan::groups() const {
  static constexpr Groups kGroups[] = {{0, 0}, {2, 1}, {4, 2}, {3, 3}};
  const std::int64_t experts = router().experts(), topk = router().topk();
  for (std::int64_t drawn = s["groups"]; drawn > 0; --drawn) {
    const Groups groups = kGroups[drawn];
    const bool divide = experts % groups.all == 0 && topk % groups.survivors == 0;
    if (divide && topk / groups.survivors <= experts / groups.all) return groups;
  }
  return {};
}

sim::DType ChoicePlan::dtype() const { return s["router_dtype"] == 1 ? sim::sum_dtype(s.dtype) : s.dtype; }

bool ChoicePlan::is_zero(std::int64_t token) const {
  return s["ties"] == 1 && s.dtype == sim::DType::field &&
         sim::KeyedRandom(s.seed).named("zero tokens").below(static_cast<std::uint64_t>(token), 2) == 1;
}

/// The factor is 1: an expert keeps its share of the tokens of a rank, rounded up.
reference::CapacitySetting ChoicePlan::capacity() const {
  const std::int64_t experts = router().experts();
  return {.tokens = tokens(),
          .capacity = (tokens() * router().topk() + experts - 1) / experts,
          .by_probability = s["dropping"] == 1,
          .is_padded = s["padded"] == 1};
}

bool ChoicePlan::is_padding(std::int64_t token) const {
  return has_padding() && token / tokens() % 2 == 1 && (token + 1) % tokens() == 0;
}

sim::TopKRouterConfig ChoicePlan::config() const {
  const RouterPlan plan = router();
  sim::TopKRouterConfig config{.name = "router",
                               .dtype = s.dtype,
                               .hidden_size = s["hidden"],
                               .num_experts = plan.experts(),
                               .routing = plan.moe().routing(plan.topk(), groups()),
                               .expert_bias = has_bias(),
                               .per_token_loss = is_per_token(),
                               .sequence_parallel = plan.tp() > 1};
  if (dtype() != s.dtype) config.router_dtype = dtype();
  if (has_z_loss()) config.z_loss_coefficient = kZLossCoefficient;
  if (has_capacity())
    config.token_dropping = {
        .drop_policy = capacity().by_probability ? sim::DropPolicy::probs : sim::DropPolicy::position,
        .pad_to_capacity = capacity().is_padded};
  return config;
}

void run_router(sim::Rank& rank, const CaseSetting& s, const RouterMistake& mistake) {
  const ChoicePlan plan{s};
  sim::TopKRouterConfig config = plan.config();
  if (mistake.config != nullptr) mistake.config(config);
  sim::TopKRouter router(rank, config);
  const std::int64_t first = rank.id * plan.tokens(), experts = plan.router().experts();
  const auto own = [&](const char* name, std::int64_t columns) {
    return drawn(rank, s, name, {plan.all_tokens(), columns}).rows(first, first + plan.tokens());
  };
  const Tensor input = own("input", s["hidden"]);
  for (std::int64_t t = 0; t < plan.tokens(); ++t) {
    Tensor token = input.rows(t, t + 1);
    if (plan.is_zero(first + t)) sim::fill(token, 0);
  }
  if (plan.has_bias())
    sim::copy(sim::cast(drawn(rank, s, "expert_bias", {experts}), router.expert_bias().dtype()),
              router.expert_bias());
  sim::PaddingMask padding;
  if (plan.has_padding()) {
    for (std::int64_t t = first; t < first + plan.tokens(); ++t)
      padding.push_back(plan.is_padding(t) ? 1 : 0);
  }
  const bool recomputes = s["recompute"] == 1;
  auto forward = router.forward(input, {.padding = padding, .counts = !recomputes});
  rank.publish("probabilities", forward.routing.probs);
  rank.publish("map", sim::cast(forward.routing.map.tensor(rank.device), s.dtype));
  if (recomputes) forward = router.forward(input, {.padding = padding});
  if (recomputes && mistake.recomputed != nullptr) mistake.recomputed(forward.saved);
  if (plan.has_z_loss()) rank.publish("z_loss", forward.losses.front().attached);
  const Tensor grad_probs = sim::cast(own("grad_output", experts), forward.routing.probs.dtype());
  const Tensor grad = router.backward(forward.saved, grad_probs, kAuxLossScale);
  sim::all_reduce_sequence_parallel_grads(rank, router.parameters());
  sim::TopKRouter* routers[] = {&router};
  sim::update_expert_bias(rank, routers, kBiasRate);
  if (plan.has_bias()) rank.publish("updated_bias", router.expert_bias());
  rank.publish("weight_grad", router.weight().main_grad);
  rank.publish("grad_input", grad);
}

using sim::Tensor;

bool AuxLossPlan::has(sim::AuxLossKind kind) const {
  return s[kAuxLossNames[static_cast<std::size_t>(kind)]] == 1;
}

bool AuxLossPlan::is_padding(std::int64_t microbatch, std::int64_t token) const {
  if (!has_padding() || token % tokens() == 0) return false;
  const std::int64_t index = microbatch * all_tokens() + token;
  return sim::KeyedRandom(s.seed).named("padding").below(static_cast<std::uint64_t>(index), 2) == 1;
}

sim::TopKRouterConfig AuxLossPlan::config() const {
  const RouterPlan plan = router();
  sim::TopKRouterConfig config{
      .name = "router",
      .dtype = s.dtype,
      .hidden_size = s["hidden"],
      .num_experts = plan.experts(),
      .routing = {.topk = plan.topk(),
                  .score_function = static_cast<sim::ScoreFunction>(plan.moe().score()),
                  .force_load_balancing = s.fixed("balanced", 0) == 1},
      .per_token_loss = is_per_token(),
      .sequence_parallel = plan.tp() > 1};
  for (const sim::AuxLossKind kind : kAuxLossKinds)
    if (has(kind)) config.aux_losses.push_back({kind, kAuxLossCoefficients[static_cast<std::size_t>(kind)]});
  return config;
}

void run_aux_losses(sim::Rank& rank, const CaseSetting& s, const AuxLossMistake& mistake) {
  const AuxLossPlan plan{s};
  sim::TopKRouterConfig config = plan.config();
  sim::Ratio scale_of_loss = plan.scale_of_loss();
  if (mistake.config != nullptr) mistake.config(config);
  if (mistake.scale_of_loss != nullptr) mistake.scale_of_loss(scale_of_loss);
  sim::TopKRouter router(rank, config);
  const std::int64_t first = rank.id * plan.tokens();
  for (std::int64_t m = 0; m < plan.microbatches(); ++m) {
    sim::RouterBatch batch{.batch_size = plan.batch()};
    for (std::int64_t t = first; plan.has_padding() && t < first + plan.tokens(); ++t)
      batch.padding.push_back(plan.is_padding(m, t) ? 1 : 0);
    const Tensor input = drawn(rank, s, fmt::format("input {}", m), {plan.all_tokens(), s["hidden"]})
                             .rows(first, first + plan.tokens());
    const auto forward = router.forward(input, batch);
    if (!mistake.is_tracker_kept) router.reset_global_aux_loss_tracker();
    for (std::size_t i = 0; i < forward.losses.size(); ++i) {
      const auto kind = static_cast<std::size_t>(config.aux_losses[i].kind);
      rank.publish(fmt::format("{} {}", kAuxLossNames[kind], m), forward.losses[i].attached);
      rank.publish(fmt::format("{} {} logged", kAuxLossNames[kind], m), forward.losses[i].logged);
    }
    const Tensor no_grad = sim::filled(rank.device, s.dtype, forward.routing.probs.shape(), 0);
    const Tensor grad = router.backward(forward.saved, no_grad, scale_of_loss);
    rank.publish(fmt::format("grad_input {}", m), sim::scale(grad, plan.scale_of_gradients()));
  }
  sim::all_reduce_sequence_parallel_grads(rank, router.parameters());
  rank.publish("weight_grad", sim::scale(router.weight().main_grad, plan.scale_of_gradients()));
}

}  // namespace verify
