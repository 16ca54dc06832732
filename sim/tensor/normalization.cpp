#include "sim/tensor/normalization.h"

#include "sim/tensor/checks.h"

namespace sim {

namespace {

void check_parameter(const Tensor& x, const Tensor& parameter, const char* user) {
  check_shapes(parameter.shape() == Shape{columns_of(x)}, {&x, &parameter}, user,
               "one element for each column");
}

void check_bias(Norm norm, const Tensor& x, const Tensor& bias, const char* user) {
  const bool has_bias = norm == Norm::layer_norm;
  check_shapes(bias.is_none() != has_bias, {&x}, user, "LayerNorm has a bias, RMSNorm has none");
}

}  // namespace

Normalized normalize(Norm norm, const Tensor& x, const Tensor& weight, const Tensor& bias, Ratio epsilon) {
  constexpr const char* kUser = "normalize";
  check_inputs({&x, &weight}, kUser);
  check_parameter(x, weight, kUser);
  check_bias(norm, x, bias, kUser);
  check_ratio(x.dtype(), epsilon, kUser);
  if (!bias.is_none()) {
    check_inputs({&x, &bias}, kUser);
    check_parameter(x, bias, kUser);
  }
  Normalized result{x.device().empty(x.dtype(), x.shape()),
                    x.device().empty(sum_dtype(x.dtype()), {2, rows_of(x)})};
  x.device().normalize(norm, x, weight, bias, epsilon, result.output, result.stats);
  return result;
}

Tensor normalize_backward(Norm norm, const Tensor& x, const Tensor& weight, const Tensor& stats,
                          const Tensor& grad, Tensor& weight_sums, Tensor& bias_sums) {
  constexpr const char* kUser = "normalize_backward";
  check_inputs({&x, &weight, &grad}, kUser);
  check_same_shape(x, grad, kUser);
  check_parameter(x, weight, kUser);
  check_sums(stats, x, kUser);
  check_shapes(stats.shape() == Shape{2, rows_of(x)}, {&x, &stats}, kUser, "stats [2, T]");
  check_sums(weight_sums, x, kUser);
  check_parameter(x, weight_sums, kUser);
  check_bias(norm, x, bias_sums, kUser);
  if (!bias_sums.is_none()) {
    check_sums(bias_sums, x, kUser);
    check_parameter(x, bias_sums, kUser);
  }
  Tensor grad_x = x.device().empty(x.dtype(), x.shape());
  x.device().normalize_backward(norm, x, weight, stats, grad, grad_x, weight_sums, bias_sums);
  return grad_x;
}

}  // namespace sim
