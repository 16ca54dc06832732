#include "sim/parallel/duplicated_linear.h"

#include "sim/tensor/matmul.h"

namespace sim {

DuplicatedLinear::DuplicatedLinear(Rank& rank, const DuplicatedLinearConfig& config)
    : weight_(make_parameter(rank, config.name + ".weight", config.dtype,
                             {config.output_size, config.input_size}, {}, config.initial)) {
  weight_.attributes.sequence_parallel = config.sequence_parallel;
}

DuplicatedLinear::Forward DuplicatedLinear::forward(const Tensor& input) const {
  return {matmul(input, transposed(weight_.value)), {input}};
}

Tensor DuplicatedLinear::backward(const Saved& saved, const Tensor& grad_output) {
  add_matmul(transposed(grad_output), saved.input, weight_.main_grad);
  return matmul(grad_output, weight_.value);
}

}  // namespace sim
