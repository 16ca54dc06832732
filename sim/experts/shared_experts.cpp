#include "sim/experts/shared_experts.h"

#include "sim/experts/row_operations.h"
#include "sim/experts/score_function.h"
#include "sim/tensor/matmul.h"
#include "sim/tensor/ops.h"

namespace sim {

namespace {

Parameter gate_of(Rank& rank, const MlpConfig& config) {
  Parameter gate = make_parameter(rank, config.name + ".gate_weight", config.dtype, {1, config.hidden_size},
                                  {}, config.initial);
  gate.attributes.sequence_parallel = config.sequence_parallel;
  return gate;
}

}  // namespace

SharedExperts::SharedExperts(Rank& rank, const SharedExpertsConfig& config) : mlp_(rank, config.mlp) {
  if (config.gate) gate_weight_ = gate_of(rank, config.mlp);
}

std::vector<Parameter*> SharedExperts::parameters() {
  std::vector<Parameter*> all = mlp_.parameters();
  if (gate_weight_) all.push_back(&*gate_weight_);
  return all;
}

SharedExperts::Forward SharedExperts::forward(const Tensor& input) {
  auto mlp = mlp_.forward(input);
  Saved saved{.input = input, .mlp = std::move(mlp.saved)};
  if (!gate_weight_) return {mlp.output, std::move(saved)};
  saved.mlp_output = mlp.output;
  saved.gate_input = matmul(input, transposed(gate_weight_->value)).flat();
  saved.gate = apply(sigmoid_function(), saved.gate_input);
  return {scaled_rows(mlp.output, saved.gate), std::move(saved)};
}

Tensor SharedExperts::backward(const Saved& saved, const Tensor& grad_output) {
  if (!gate_weight_) return mlp_.backward(saved.mlp, grad_output);
  const Tensor grad_gate =
      apply_backward(sigmoid_function(), saved.gate_input, row_dots(grad_output, saved.mlp_output));
  const Tensor grad_logits = grad_gate.reshaped({grad_gate.count(), 1});
  add_matmul(transposed(grad_logits), saved.input, gate_weight_->main_grad);
  const Tensor grad_input = mlp_.backward(saved.mlp, scaled_rows(grad_output, saved.gate));
  return add(grad_input, matmul(grad_logits, gate_weight_->value));
}

}  // namespace sim
