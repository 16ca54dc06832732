#include "sim/tensor/normalization.h"

#include "sim/tensor/checks.h"

namespace sim {

namespace {

void require_parameter(const Tensor& x, const Tensor& parameter, const char* user) {
  require_shapes(parameter.shape() == Shape{columns_of(x)}, {&x, &parameter}, user,
                 "weight and bias have one element for each column");
}

void require_bias(Norm norm, const Tensor& x, const Tensor& bias, const char* user) {
  const bool has_bias = norm == Norm::layer_norm;
  require_shapes(bias.is_none() != has_bias, {&x}, user, "LayerNorm has a bias, and RMSNorm has none");
}

}  // namespace

Normalized normalize(Norm norm, const Tensor& x, const Tensor& weight, const Tensor& bias, Ratio epsilon) {
  constexpr const char* kUser = "normalize";
  require_inputs({&x, &weight}, kUser);
  require_parameter(x, weight, kUser);
  require_bias(norm, x, bias, kUser);
  require_ratio(x.dtype(), epsilon, kUser);
  if (!bias.is_none()) {
    require_inputs({&x, &bias}, kUser);
    require_parameter(x, bias, kUser);
  }
  Normalized result{x.device().empty(x.dtype(), x.shape()),
                    x.device().empty(sum_dtype(x.dtype()), {2, rows_of(x)})};
  x.device().normalize(norm, x, weight, bias, epsilon, result.output, result.stats);
  return result;
}

Tensor normalize_backward(Norm norm, const Tensor& x, const Tensor& weight, const Tensor& stats,
                          const Tensor& grad, Tensor& weight_sums, Tensor& bias_sums) {
  constexpr const char* kUser = "normalize_backward";
  require_inputs({&x, &weight, &grad}, kUser);
  require_same_shape(x, grad, kUser);
  require_parameter(x, weight, kUser);
  require_sums(stats, x, kUser);
  require_shapes(stats.shape() == Shape{2, rows_of(x)}, {&x, &stats}, kUser,
                 "stats are [2, T], with T rows of x");
  require_sums(weight_sums, x, kUser);
  require_parameter(x, weight_sums, kUser);
  require_bias(norm, x, bias_sums, kUser);
  if (!bias_sums.is_none()) {
    require_sums(bias_sums, x, kUser);
    require_parameter(x, bias_sums, kUser);
  }
  Tensor grad_x = x.device().empty(x.dtype(), x.shape());
  x.device().normalize_backward(norm, x, weight, stats, grad, grad_x, weight_sums, bias_sums);
  return grad_x;
}

}  // namespace sim
