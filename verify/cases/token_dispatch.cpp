#include "verify/cases/token_dispatch.h"

#include "sim/base/keyed_random.h"
#include "sim/experts/row_operations.h"
#include "sim/tensor/checks.h"
#include "sim/tensor/matmul.h"
#include "sim/tensor/ops.h"
#include "sim/tensor/rows.h"

namespace verify {

using sim::Tensor;

// ---- routing

std::int64_t TokenDispatch::below(const char* name, std::int64_t index, std::int64_t bound) const {
  return sim::KeyedRandom(s.seed).named("routing").named(name).below(static_cast<std::uint64_t>(index),
                                                                     static_cast<std::uint32_t>(bound));
}

std::optional<std::int64_t> TokenDispatch::capacity() const {
  if (routing() != DrawnRouting::full_capacity) return std::nullopt;
  return 1 + below("capacity", 0, plan().tokens());
}

bool TokenDispatch::is_chosen(int rank, std::int64_t t, std::int64_t e) const {
  const std::int64_t tokens = plan().tokens(), experts = plan().experts();
  const std::int64_t token = rank * tokens + t, pair = token * experts + e;
  switch (routing()) {
    case DrawnRouting::any_pairs:
      return below("pair", pair, 2) == 1;
    case DrawnRouting::one_expert_each:
      return below("expert of token", token, experts) == e;
    case DrawnRouting::tokens_of_one_rank:
      return below("rank", 0, s.group_size) == rank && below("pair", pair, 2) == 1;
    case DrawnRouting::all_to_one_expert:
      return below("expert", 0, experts) == e;
    case DrawnRouting::none:
      return false;
    case DrawnRouting::all_to_all_experts:
      return true;
    case DrawnRouting::full_capacity:
      return (t + below("first token", rank * experts + e, tokens)) % tokens < *capacity();
  }
  return false;
}

sim::RoutingMap TokenDispatch::map_of(int rank) const {
  sim::RoutingMap map(plan().tokens(), plan().experts());
  for (std::int64_t t = 0; t < map.tokens(); ++t)
    for (std::int64_t e = 0; e < map.experts(); ++e) map.set(t, e, is_chosen(rank, t, e));
  return map;
}

// ---- experts

DrawnExperts::DrawnExperts(sim::Rank& rank, const CaseSetting& s) : s_(s) {
  const MoePlan plan{s};
  const std::int64_t hidden = s["hidden"];
  const bool has_matrices = TokenDispatch{s}.has_matrices();
  for (std::int64_t i = 0; i < s["local_experts"]; ++i) {
    Expert expert{.name = TokenDispatch::name_of_weight(plan.ep_rank(rank.id) * s["local_experts"] + i)};
    if (has_matrices) {
      const Tensor whole = drawn(rank, s, expert.name, {hidden, plan.etp() * hidden});
      expert.weight = sim::columns(whole, plan.etp_rank(rank.id) * hidden, hidden);
      expert.grad = sim::filled(rank.device, sim::sum_dtype(s.dtype), {hidden, hidden}, 0);
    }
    experts_.push_back(std::move(expert));
  }
}

Tensor DrawnExperts::forward(const sim::ExpertRows& rows) {
  rows_ = rows;
  const Tensor weighted = sim::scaled_rows(rows.rows, rows.probs);
  if (!TokenDispatch{s_}.has_matrices()) return weighted;
  const Tensor outputs = rows.rows.device().empty(s_.dtype, rows.rows.shape());
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < experts_.size(); ++i) {
    const std::int64_t end = begin + rows.of_expert[i];
    Tensor output = outputs.rows(begin, end);
    if (end > begin)
      sim::copy(sim::matmul(weighted.rows(begin, end), sim::transposed(experts_[i].weight)), output);
    begin = end;
  }
  return outputs;
}

DrawnExperts::Gradients DrawnExperts::backward(const Tensor& grad) {
  if (!TokenDispatch{s_}.has_matrices())
    return {sim::scaled_rows(grad, rows_.probs), sim::row_dots(grad, rows_.rows)};
  const Tensor weighted = sim::scaled_rows(rows_.rows, rows_.probs);
  const Tensor of_weighted = grad.device().empty(s_.dtype, grad.shape());
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < experts_.size(); ++i) {
    const std::int64_t end = begin + rows_.of_expert[i];
    Tensor own = of_weighted.rows(begin, end);
    if (end > begin) {
      sim::copy(sim::matmul(grad.rows(begin, end), experts_[i].weight), own);
      sim::add_matmul(sim::transposed(grad.rows(begin, end)), weighted.rows(begin, end), experts_[i].grad);
    }
    begin = end;
  }
  return {sim::scaled_rows(of_weighted, rows_.probs), sim::row_dots(of_weighted, rows_.rows)};
}

void DrawnExperts::publish(sim::Rank& rank) const {
  if (!TokenDispatch{s_}.has_matrices()) return;
  for (const Expert& expert : experts_) {
    rank.publish(expert.name, expert.weight);
    rank.publish(expert.name + "_grad", expert.grad);
  }
}

// ---- the program

void run_token_dispatch(sim::Rank& rank, const CaseSetting& s, const BeforeCombine& before_combine) {
  const TokenDispatch dispatch{s};
  const MoePlan plan{s};
  const auto own = [&](const char* name, std::int64_t columns) {
    const std::int64_t first = rank.id * plan.tokens();
    return drawn(rank, s, name, {plan.all_tokens(), columns}).rows(first, first + plan.tokens());
  };
  const sim::RoutingMap map = dispatch.map_of(rank.id);
  const Tensor input = own("input", s["hidden"]), grad_output = own("grad_output", s["hidden"]);
  const Tensor probs = sim::masked(map.tensor(rank.device), own("probabilities", plan.experts()));
  const auto dispatcher = sim::make_token_dispatcher(
      plan.dispatcher(), sim::expert_grid(rank, plan.experts()), {map, dispatch.capacity()});
  DrawnExperts experts(rank, s);
  const sim::ExpertRows rows = dispatcher->dispatch(input, probs);
  const Tensor outputs = experts.forward(rows);
  const Tensor output =
      dispatcher->combine(before_combine == nullptr ? outputs : before_combine(rank, rows, outputs));
  const DrawnExperts::Gradients of_rows = experts.backward(dispatcher->combine_backward(grad_output));
  const auto of_tokens = dispatcher->dispatch_backward(of_rows.rows, of_rows.probs);
  rank.publish("input", input);  // after the calls, which must not have changed it
  rank.publish("probabilities", probs);
  rank.publish("output", output);
  rank.publish("grad_output", grad_output);
  experts.publish(rank);
  rank.publish("probabilities_grad", of_tokens.probs);
  rank.publish("grad_input", of_tokens.hidden);
}

}  // namespace verify
