#include "sim/experts/dispatchers.h"
#include "sim/experts/token_order.h"
#include "sim/experts/token_rows.h"
#include "sim/parallel/region.h"

namespace sim::dispatchers {

namespace {

RoutingMap gathered_map(const ExpertGrid& grid, const RoutingMap& own, Device& device) {
  const Tensor map = tensor_of_numbers(device, map_numbers(own)).reshaped({own.tokens(), own.experts()});
  const std::vector<std::int64_t> all = numbers_of(gathered_rows(map, grid.tp_ep, "token_dispatcher.map"));
  return {own.tokens() * grid.tp_ep.size(), own.experts(), {all.begin(), all.end()}};
}

class AllGatherDispatcher : public TokenDispatcher {
 public:
  AllGatherDispatcher(const ExpertGrid& grid, TokensToDispatch tokens)
      : grid_(grid), own_(std::move(tokens.map)) {}

  ExpertRows dispatch(const Tensor& hidden, const Tensor& probs) override {
    const RoutingMap map = gathered_map(grid_, own_, hidden.device());
    all_tokens_ = map.tokens();
    order_ = expert_order(map, grid_.first_local_expert(), grid_.local_experts());
    const Tensor all_probs = gathered_rows(probs, grid_.tp_ep, "token_dispatcher.dispatch_probs");
    const Tensor all_hidden = gathered_rows(hidden, grid_.tp_ep, "token_dispatcher.dispatch");
    return {taken_rows(all_hidden, order_.tokens), taken_entries(all_probs, order_.entries),
            order_.of_expert};
  }

  Tensor combine(const Tensor& outputs) const override {
    return reduce_scattered_rows(added_rows(outputs, order_.tokens, all_tokens_), grid_.tp_ep,
                                 "token_dispatcher.combine");
  }

  Tensor combine_backward(const Tensor& grad) const override {
    return taken_rows(gathered_rows(grad, grid_.tp_ep, "token_dispatcher.combine_backward"), order_.tokens);
  }

  Gradients dispatch_backward(const Tensor& grad_rows, const Tensor& grad_probs) const override {
    const Tensor hidden = added_rows(grad_rows, order_.tokens, all_tokens_);
    const Tensor probs = added_entries(grad_probs, order_.entries, all_tokens_, own_.experts());
    return {reduce_scattered_rows(hidden, grid_.tp_ep, "token_dispatcher.dispatch_backward"),
            reduce_scattered_rows(probs, grid_.tp_ep, "token_dispatcher.probs_backward")};
  }

 private:
  ExpertGrid grid_;
  RoutingMap own_;
  std::int64_t all_tokens_ = 0;
  ExpertOrder order_;  // of the tokens of all ranks
};

}  // namespace

std::unique_ptr<TokenDispatcher> allgather(const ExpertGrid& grid, TokensToDispatch tokens) {
  return std::make_unique<AllGatherDispatcher>(grid, std::move(tokens));
}

}  // namespace sim::dispatchers
