#include "verify/cases/aux_loss_plan.h"

#include <fmt/format.h>

#include "sim/parallel/sequence_parallel_grads.h"
#include "sim/tensor/ops.h"

namespace verify {

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
