#include "sim/parallel/mlp.h"

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

}  // namespace

Mlp::Mlp(Rank& rank, const MlpConfig& config)
    : activation_{config.activation, config.gated, config.own_activation},
      fc1_(rank, fc1_config(config)),
      fc2_(rank, fc2_config(config)) {}

std::vector<Parameter*> Mlp::parameters() { return joined({fc1_.parameters(), fc2_.parameters()}); }

Mlp::Forward Mlp::forward(const Tensor& input) {
  const auto fc1 = fc1_.forward(input);
  const auto fc2 = fc2_.forward(activation_.forward(fc1.output));
  return {fc2.output, {fc1.saved, fc1.output, fc2.saved}};
}

Tensor Mlp::backward(const Saved& saved, const Tensor& grad_output) {
  const Tensor grad = fc2_.backward(saved.fc2, grad_output);
  return fc1_.backward(saved.fc1, activation_.backward(saved.inside, grad));
}

}  // namespace sim
