#include "sim/model/mlp.h"

#include "sim/tensor/activation.h"
#include "sim/tensor/checks.h"
#include "sim/tensor/rows.h"

namespace sim {

namespace {

ColumnParallelLinearConfig fc1_config(const MlpConfig& config) {
  return {.name = config.name + ".linear_fc1",
          .dtype = config.dtype,
          .input_size = config.hidden_size,
          .output_size = config.gated ? 2 * config.ffn_hidden_size : config.ffn_hidden_size,
          .bias = config.bias,
          .sequence_parallel = config.sequence_parallel,
          .stride = config.gated ? 2 : 1,
          .initial = config.initial};
}

RowParallelLinearConfig fc2_config(const MlpConfig& config) {
  return {.name = config.name + ".linear_fc2",
          .dtype = config.dtype,
          .input_size = config.ffn_hidden_size,
          .output_size = config.hidden_size,
          .bias = config.bias,
          .sequence_parallel = config.sequence_parallel,
          .initial = config.initial};
}

Tensor times(const Tensor& a, const Tensor& b) { return combine(ReduceOp::product, a, b); }

/// gate_of() and up_of() return the halves [gate | up] of the output of linear_fc1 in a gated MLP.
Tensor gate_of(const Tensor& inside) { return columns(inside, 0, columns_of(inside) / 2); }
Tensor up_of(const Tensor& inside) { return columns(inside, columns_of(inside) / 2, columns_of(inside) / 2); }

}  // namespace

Mlp::Mlp(Rank& rank, const MlpConfig& config)
    : activation_(config.activation),
      gated_(config.gated),
      fc1_(rank, fc1_config(config)),
      fc2_(rank, fc2_config(config)) {}

std::vector<Parameter*> Mlp::parameters() { return joined({fc1_.parameters(), fc2_.parameters()}); }

Mlp::Forward Mlp::forward(const Tensor& input) {
  const auto fc1 = fc1_.forward(input);
  const Tensor activated = gated_ ? times(activate(activation_, gate_of(fc1.output)), up_of(fc1.output))
                                  : activate(activation_, fc1.output);
  const auto fc2 = fc2_.forward(activated);
  return {fc2.output, {fc1.saved, fc1.output, fc2.saved}};
}

Tensor Mlp::backward(const Saved& saved, const Tensor& grad_output) {
  const Tensor grad = fc2_.backward(saved.fc2, grad_output);
  if (!gated_) return fc1_.backward(saved.fc1, activate_backward(activation_, saved.inside, grad));
  const Tensor gate = gate_of(saved.inside);
  Tensor grad_inside = grad.device().empty(grad.dtype(), saved.inside.shape());
  put_columns(activate_backward(activation_, gate, times(grad, up_of(saved.inside))), grad_inside, 0);
  put_columns(times(grad, activate(activation_, gate)), grad_inside, columns_of(gate));
  return fc1_.backward(saved.fc1, grad_inside);
}

}  // namespace sim
