#include "sim/parallel/parallel_norm.h"

#include <utility>

#include "sim/tensor/normalization.h"

namespace sim {

ParallelNorm::ParallelNorm(Rank& rank, ParallelNormConfig config) : config_(std::move(config)) {
  const auto replicated = [&](const char* what) {
    Parameter parameter =
        make_parameter(rank, config_.name + what, config_.dtype, {config_.hidden_size}, {}, config_.initial);
    parameter.attributes.sequence_parallel = config_.sequence_parallel;
    return parameter;
  };
  weight_ = replicated(".weight");
  if (config_.norm == Norm::layer_norm) bias_ = replicated(".bias");
}

std::vector<Parameter*> ParallelNorm::parameters() {
  if (config_.norm == Norm::layer_norm) return {&weight_, &bias_};
  return {&weight_};
}

ParallelNorm::Forward ParallelNorm::forward(const Tensor& input) {
  const Normalized result = normalize(config_.norm, input, weight_.value, bias_.value, config_.epsilon);
  return {result.output, {input, result.stats}};
}

Tensor ParallelNorm::backward(const Saved& saved, const Tensor& grad_output) {
  return normalize_backward(config_.norm, saved.input, weight_.value, saved.stats, grad_output,
                            weight_.main_grad, bias_.main_grad);
}

}  // namespace sim
