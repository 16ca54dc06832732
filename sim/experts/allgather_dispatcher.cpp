#include "sim/experts/dispatchers.h"
#include "sim/experts/token_permutation.h"
#include "sim/parallel/region.h"
#include "sim/tensor/ops.h"
#include "sim/tensor/rows.h"

namespace sim::dispatchers {

namespace {

class AllGatherDispatcher : public TokenDispatcher {
 public:
  AllGatherDispatcher(const ExpertGrid& grid, TokensToDispatch tokens)
      : grid_(grid), own_(std::move(tokens.map)) {}

  ExpertRows dispatch(const Tensor& hidden, const Tensor& probs) override {
    require_tokens_of(own_, hidden, probs);
    const RoutingMap map =
        received_map(gathered_rows(own_.tensor(hidden.device()), grid_.tp_ep, "token_dispatcher.map"), own_,
                     grid_.tp_ep.size());
    order_ = row_order(map.experts_from(grid_.first_local_expert(), grid_.local_experts()), hidden.device());
    const Tensor all_probs = gathered_rows(probs, grid_.tp_ep, "token_dispatcher.dispatch_probs");
    const Tensor all_hidden = gathered_rows(hidden, grid_.tp_ep, "token_dispatcher.dispatch");
    const Tensor local_probs = columns(all_probs, grid_.first_local_expert(), grid_.local_experts());
    return {permute(all_hidden, order_), permute_probs(local_probs, order_), order_.rows_per_expert};
  }

  Tensor combine(const Tensor& outputs) const override {
    return reduce_scattered_rows(unpermute(outputs, order_), grid_.tp_ep, "token_dispatcher.combine");
  }

  Tensor combine_backward(const Tensor& grad) const override {
    return unpermute_backward(gathered_rows(grad, grid_.tp_ep, "token_dispatcher.combine_backward"), order_);
  }

  Gradients dispatch_backward(const Tensor& grad_rows, const Tensor& grad_probs) const override {
    const Tensor of_local_experts = permute_probs_backward(grad_probs, order_);
    Tensor probs = filled(grad_probs.device(), grad_probs.dtype(), {order_.tokens, own_.experts()}, 0);
    put_columns(of_local_experts, probs, grid_.first_local_expert());
    return {reduce_scattered_rows(permute_backward(grad_rows, order_), grid_.tp_ep,
                                  "token_dispatcher.dispatch_backward"),
            reduce_scattered_rows(probs, grid_.tp_ep, "token_dispatcher.probs_backward")};
  }

 private:
  ExpertGrid grid_;
  RoutingMap own_;
  RowOrder order_;  // of the tokens of all ranks, over the local experts
};

}  // namespace

std::unique_ptr<TokenDispatcher> allgather(const ExpertGrid& grid, TokensToDispatch tokens) {
  return std::make_unique<AllGatherDispatcher>(grid, std::move(tokens));
}

}  // namespace sim::dispatchers
