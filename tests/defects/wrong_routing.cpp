#include "tests/defects/wrong_routing.h"

#include "sim/experts/host_copies.h"
#include "sim/experts/row_operations.h"
#include "sim/experts/token_permutation.h"
#include "sim/tensor/ops.h"
#include "tests/defects/wrong_calls.h"
#include "verify/cases/router_plan.h"
#include "verify/cases/token_dispatch.h"

namespace test {

using sim::Tensor;
using verify::CaseSetting;

// ---- token_dispatcher

/// The gathered counts are those of [ep][etp][E].
void counts_read_in_the_order_of_etp(sim::Rank& rank, const CaseSetting& s) {
  if (verify::MoePlan{s}.etp() != 2) return verify::run_token_dispatch(rank, s);
  run_with_fault({"token_dispatcher.counts", CallFault::halves_interleaved, "tp-ep"}, rank,
                 [&](sim::Rank& other) { verify::run_token_dispatch(other, s); });
}

/// Rows arrive by the sender's etp rank, then by its ep rank, then by expert. They were sorted by expert, and
/// go back in the order of experts.
void outputs_not_sorted_back(sim::Rank& rank, const CaseSetting& s) {
  const verify::MoePlan plan{s};
  const bool sorts = plan.dispatcher() == sim::TokenDispatcherType::alltoall && s["local_experts"] > 1;
  if (!sorts) return verify::run_token_dispatch(rank, s);
  verify::run_token_dispatch(rank, s, [&s](sim::Rank& own, const sim::ExpertRows&, const Tensor& outputs) {
    const verify::MoePlan p{s};
    const std::int64_t local = s["local_experts"], senders = p.etp() * p.ep();
    const int first_rank = own.id - own.id % static_cast<int>(senders);
    std::vector<std::int64_t> rows, chunk_at;
    for (int i = 0; i < p.etp(); ++i) {
      for (int j = 0; j < p.ep(); ++j) {
        const auto of_expert =
            verify::TokenDispatch{s}.map_of(first_rank + j * p.etp() + i).tokens_per_expert();
        for (std::int64_t e = 0; e < local; ++e)
          rows.push_back(of_expert[static_cast<std::size_t>(p.ep_rank(own.id) * local + e)]);
      }
    }
    for (std::int64_t e = 0; e < local; ++e)
      for (std::int64_t sender = 0; sender < senders; ++sender) chunk_at.push_back(sender * local + e);
    return sim::sort_chunks_by_idxs(outputs, rows, chunk_at);
  });
}

void probabilities_applied_twice(sim::Rank& rank, const CaseSetting& s) {
  verify::run_token_dispatch(rank, s, [](sim::Rank&, const sim::ExpertRows& rows, const Tensor& outputs) {
    return sim::scaled_rows(outputs, rows.probs);
  });
}

// ---- moe_router

void capacity_of_all_tokens(sim::Rank& rank, const CaseSetting& s) {
  verify::run_router(rank, s, {.config = [&s](sim::TopKRouterConfig& config) {
                       if (config.token_dropping) config.token_dropping->capacity_factor *= s.group_size;
                     }});
}

void router_in_the_dtype_of_the_layer(sim::Rank& rank, const CaseSetting& s) {
  verify::run_router(rank, s, {.config = [](sim::TopKRouterConfig& config) { config.router_dtype.reset(); }});
}

/// Of equal scores the experts with the highest numbers are taken. Their scores are those of the others.
void ties_broken_otherwise_in_recomputation(sim::Rank& rank, const CaseSetting& s) {
  const verify::ChoicePlan plan{s};
  if (plan.has_bias() || plan.has_capacity() || plan.groups().all > 0) return verify::run_router(rank, s);
  verify::run_router(rank, s, {.recomputed = [&](sim::TopKRouter::Saved& saved) {
                       const std::int64_t experts = plan.router().experts(), topk = plan.router().topk();
                       std::vector<std::int32_t> mask = sim::host_ids(saved.routing.mask), ids;
                       for (std::int64_t t = 0; t < plan.tokens(); ++t) {
                         if (!plan.is_zero(rank.id * plan.tokens() + t)) continue;
                         for (std::int64_t e = 0; e < experts; ++e)
                           mask[static_cast<std::size_t>(t * experts + e)] = e >= experts - topk ? 1 : 0;
                       }
                       for (std::size_t i = 0; i < mask.size(); ++i)
                         if (mask[i] != 0) ids.push_back(static_cast<std::int32_t>(i));
                       saved.routing.mask = sim::device_ids(rank.device, saved.routing.mask.shape(), mask);
                       saved.routing.ids = sim::device_ids(rank.device, {plan.tokens(), topk}, ids);
                     }});
}

void z_loss_not_times_tokens(sim::Rank& rank, const CaseSetting& s) {
  verify::run_router(rank, s,
                     {.config = [](sim::TopKRouterConfig& config) { config.per_token_loss = false; }});
}

// ---- moe_aux_loss

void global_loss_over_dp(sim::Rank& rank, const CaseSetting& s) {
  verify::run_aux_losses(rank, s, {.config = [&s](sim::TopKRouterConfig& config) {
                           for (sim::AuxLoss& loss : config.aux_losses)
                             if (loss.kind == sim::AuxLossKind::global_aux_loss)
                               loss.coefficient.denominator *= verify::RouterPlan{s}.dp();
                         }});
}

void losses_not_times_cp(sim::Rank& rank, const CaseSetting& s) {
  if (s["per_token"] == 1) return verify::run_aux_losses(rank, s);
  verify::run_aux_losses(rank, s, {.scale_of_loss = [](sim::Ratio& scale) { scale.numerator = 1; }});
}

void counts_of_each_microbatch_alone(sim::Rank& rank, const CaseSetting& s) {
  verify::run_aux_losses(rank, s, {.is_tracker_kept = false});
}

}  // namespace test
