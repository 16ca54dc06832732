#include "tests/defects/wrong_experts.h"

#include "sim/tensor/ops.h"
#include "verify/cases/moe_layer_case.h"

namespace test {

using verify::CaseSetting;
using verify::MoePlan;

namespace {

void run_layer(sim::Rank& rank, const MoePlan& plan, const sim::MoeLayerConfig& config) {
  sim::MoeLayer layer(rank, config);
  verify::publish_moe_layer(rank, plan, layer, verify::results_of(rank, plan, layer));
}

/// Computes what a layer without shared experts computes, with a grid that may be another one than the
/// layer's.
verify::MoeResults results_on(const sim::ExpertGrid& grid, sim::Rank& rank, const MoePlan& plan,
                              sim::MoeLayer& layer) {
  const sim::Tensor input = verify::own_tokens(rank, plan, "input");
  const auto routed = layer.router().forward(input);
  const auto dispatcher = sim::make_token_dispatcher(plan.dispatcher(), grid, {routed.routing.map});
  const auto experts = layer.experts().forward(dispatcher->dispatch(input, routed.routing.probs));
  const sim::Tensor output = dispatcher->combine(experts.output);
  const sim::Tensor grad = verify::own_tokens(rank, plan, "grad_output");
  const auto of_experts = layer.experts().backward(experts.saved, dispatcher->combine_backward(grad));
  const auto of_tokens = dispatcher->dispatch_backward(of_experts.rows, of_experts.probs);
  return {routed.routing.probs, output,
          sim::add(of_tokens.hidden, layer.router().backward(routed.saved, of_tokens.probs))};
}

}  // namespace

void gathered_over_data_parallel_ranks(sim::Rank& rank, const CaseSetting& s) {
  const MoePlan plan{s};
  const bool has_grid = plan.ep() * plan.etp() > 1;
  if (has_grid || s["shared"] > 0 || plan.dispatcher() != sim::TokenDispatcherType::allgather)
    return run_layer(rank, plan, plan.layer());
  sim::MoeLayer layer(rank, plan.layer());
  const sim::ExpertGrid grid{.ep = rank.groups.get("ep"),
                             .etp = rank.groups.get("etp"),
                             .tp_ep = rank.groups.get("tp-dp-cp"),
                             .experts = plan.experts()};
  verify::publish_moe_layer(rank, plan, layer, results_on(grid, rank, plan, layer));
}

void shared_experts_drawn_by_each_replica(sim::Rank& rank, const CaseSetting& s) {
  const MoePlan plan{s};
  sim::MoeLayerConfig config = plan.layer();
  const int replica = rank.groups.get("dp").rank();
  if (config.shared_experts && replica > 0)
    config.shared_experts->mlp.name += ".of_replica_" + std::to_string(replica);
  run_layer(rank, plan, config);
}

}  // namespace test
