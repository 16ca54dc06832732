#include "sim/parallel/row_parallel_linear.h"

#include <utility>

#include "sim/base/error.h"
#include "sim/parallel/mappings.h"
#include "sim/tensor/matmul.h"
#include "sim/tensor/rows.h"

namespace sim {

namespace {

/// Sums the ranks' terms: with sequence parallelism each rank keeps its rows of the sum.
const Mapping& output_mapping(const RowParallelLinearConfig& config) {
  return config.sequence_parallel ? kReduceScatterToSequenceParallelRegion
                                  : kReduceFromTensorModelParallelRegion;
}

RowParallelLinearConfig checked(RowParallelLinearConfig config) {
  if (config.sequence_parallel && !config.input_is_parallel) {
    refuse({.code = "layer_config",
            .option = config.name,
            .numbers = "sequence_parallel without input_is_parallel",
            .rule = "with sequence_parallel the input is already split over features",
            .hint = "input_is_parallel = true"});
  }
  return config;
}

}  // namespace

RowParallelLinear::RowParallelLinear(Rank& rank, RowParallelLinearConfig config)
    : config_(checked(std::move(config))), tp_(rank.groups.get("tp")) {
  weight_ =
      make_parameter(rank, config_.name + ".weight", config_.dtype, {config_.output_size, config_.input_size},
                     {.dim = 1, .place = tp_.rank(), .size = tp_.size()}, config_.initial);
  if (!config_.bias) return;
  bias_ =
      make_parameter(rank, config_.name + ".bias", config_.dtype, {config_.output_size}, {}, config_.initial);
  bias_.attributes.sequence_parallel = config_.sequence_parallel;
}

std::vector<Parameter*> RowParallelLinear::parameters() {
  if (config_.bias) return {&weight_, &bias_};
  return {&weight_};
}

RowParallelLinear::Forward RowParallelLinear::forward(const Tensor& input) {
  const Tensor own = config_.input_is_parallel ? input
                                               : kScatterToTensorModelParallelRegion.forward(
                                                     input, tp_, "row_parallel_linear.scatter_input");
  const Tensor partial = matmul(own, transposed(weight_.value));
  Tensor output = output_mapping(config_).forward(partial, tp_, "row_parallel_linear.forward");
  if (config_.bias && !config_.skip_bias_add) output = add_bias(output, bias_.value);
  return {output, {own}};
}

Tensor RowParallelLinear::backward(const Saved& saved, const Tensor& grad_output) {
  if (config_.bias && !config_.skip_bias_add) add_column_sums(grad_output, bias_.main_grad);
  const Tensor grad = output_mapping(config_).backward(grad_output, tp_, "row_parallel_linear.backward");
  Tensor grad_own = matmul(grad, weight_.value);
  add_matmul(transposed(grad), saved.input, weight_.main_grad);
  if (config_.input_is_parallel) return grad_own;
  return kScatterToTensorModelParallelRegion.backward(grad_own, tp_, "row_parallel_linear.scatter_input");
}

}  // namespace sim
