#include "scaled_linear.h"

#include <sim/parallel/mappings.h>
#include <sim/tensor/matmul.h>

namespace outside {

// The mapping sums in forward, and leaves the gradient as it is in backward.
constexpr const sim::Mapping& kReduce = sim::kReduceFromTensorModelParallelRegion;

ScaledLinear::ScaledLinear(sim::Rank& rank, sim::DType dtype, std::int64_t features, std::int64_t hidden)
    : tp_(rank.groups.get("tp")), scale_{1, features} {
  const sim::Partition columns = {.dim = 1, .place = tp_.rank(), .size = tp_.size()};
  weight = sim::make_parameter(rank, "scaled_linear.weight", dtype, {hidden, features}, columns, {});
}

sim::Tensor ScaledLinear::forward(const sim::Tensor& input) {
  const sim::Tensor own = sim::matmul(input, sim::transposed(weight.value));
  if (forgets_the_sum) return sim::scale(own, scale_);
  return sim::scale(kReduce.forward(own, tp_, "scaled_linear.forward"), scale_);
}

sim::Tensor ScaledLinear::backward(const sim::Tensor& input, const sim::Tensor& grad_output) {
  const sim::Tensor grad = sim::scale(grad_output, scale_);
  sim::add_matmul(sim::transposed(grad), input, weight.main_grad);
  return sim::matmul(grad, weight.value);
}

}  // namespace outside
