#include "sim/experts/score_function.h"

#include <cmath>

#include "sim/base/elementary.h"
#include "sim/experts/row_operations.h"
#include "sim/tensor/ops.h"
#include "sim/tensor/softmax.h"

namespace sim {

namespace {

template <typename Float>
Float sigmoid(Float x) {
  return 1 / (1 + elementary::exp(-x));
}

/// Returns log(1 + y) for y >= 0. The rounding of 1 + y is divided out again (Higham 2002, section 1.14.1).
template <typename Float>
Float log_of_one_plus(Float y) {
  const Float u = 1 + y;
  return u == 1 ? y : y * (elementary::log(u) / (u - 1));
}

/// torch takes x itself from here on.
template <typename Float>
constexpr Float kSoftplusIsLinear = 20;

template <typename Float>
Float sqrtsoftplus(Float x) {
  return std::sqrt(x > kSoftplusIsLinear<Float> ? x : log_of_one_plus(elementary::exp(x)));
}

template <typename Float>
Float sqrtsoftplus_derivative(Float x) {
  const Float slope = x > kSoftplusIsLinear<Float> ? 1 : sigmoid(x);
  return slope / (2 * sqrtsoftplus(x));
}

/// 10^-20, rounded
template <typename Float>
constexpr Float kLeastSum = static_cast<Float>(0x1.79ca10c924223p-67);

const ElementFunction& element_function_of(ScoreFunction function) {
  return function == ScoreFunction::sigmoid ? sigmoid_function() : sqrtsoftplus_function();
}

}  // namespace

const ElementFunction& sigmoid_function() {
  static const ElementFunction function = element_function(
      "sigmoid", [](auto x) { return sigmoid(x); }, [](auto x) { return sigmoid(x) * (1 - sigmoid(x)); });
  return function;
}

const ElementFunction& sqrtsoftplus_function() {
  static const ElementFunction function = element_function(
      "sqrtsoftplus", [](auto x) { return sqrtsoftplus(x); },
      [](auto x) { return sqrtsoftplus_derivative(x); });
  return function;
}

const ElementFunction& inverse_of_sum_function() {
  static const ElementFunction function = element_function(
      "inverse_of_sum", [](auto x) { return 1 / (x + kLeastSum<decltype(x)>); },
      [](auto x) {
        const auto inverse = 1 / (x + kLeastSum<decltype(x)>);
        return -(inverse * inverse);
      });
  return function;
}

Tensor scores_of(ScoreFunction function, const Tensor& logits) {
  if (function == ScoreFunction::softmax) return softmax(logits, 1, {});
  return apply(element_function_of(function), logits);
}

Tensor scores_backward(ScoreFunction function, const Tensor& logits, const Tensor& scores,
                       const Tensor& grad_scores) {
  if (function == ScoreFunction::softmax) return softmax_backward(scores, grad_scores, 1);
  return apply_backward(element_function_of(function), logits, grad_scores);
}

NormalizedRows normalized_rows(const Tensor& x) {
  const Tensor inverses = apply(inverse_of_sum_function(), row_sums(x));
  return {scaled_rows(x, inverses), inverses};
}

Tensor normalized_rows_backward(const Tensor& x, const Tensor& inverses, const Tensor& grad) {
  // y = x f(sum(x)), so x gets grad f(sum) + sum(grad x) f'(sum).
  const Tensor through_sum = apply_backward(inverse_of_sum_function(), row_sums(x), row_dots(grad, x));
  return add(scaled_rows(grad, inverses), repeated_columns(through_sum, x.shape()[1]));
}

}  // namespace sim
