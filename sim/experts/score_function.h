#pragma once

/// The functions that turn the logits of a router into scores: softmax over the experts, sigmoid, and the
/// square root of softplus.
///
/// Shapes  logits, scores and gradients [T, E].
/// Calls   none.
/// Errors  those of checks.h.
/// Exact   bf16 is computed in f32 and rounded once. As in torch, softplus is x above 20. Softmax is as
///         device.h says, with a divisor of 1; in the field the logits are multiplied by the keyed 1 /
///         sqrt(1), which is another number than 1. The others, and the inverse by which their sums are
///         divided out, are functions of element_function.h: in the field each is a keyed function, named
///         "sigmoid", "sqrtsoftplus" and "inverse_of_sum", and its derivative another one.
/// Source  Megatron-LM, moe_utils.py: topk_routing_with_score_function.

#include <string_view>

#include "sim/experts/expert_options.h"
#include "sim/tensor/element_function.h"

namespace sim {

constexpr std::string_view name_of(ScoreFunction function) {
  constexpr std::string_view kNames[] = {"softmax", "sigmoid", "sqrtsoftplus"};
  return kNames[static_cast<std::size_t>(function)];
}

Tensor scores_of(ScoreFunction function, const Tensor& logits);
/// Returns the gradient of the logits, from the logits and their scores.
Tensor scores_backward(ScoreFunction function, const Tensor& logits, const Tensor& scores,
                       const Tensor& grad_scores);

/// Rows of scores divided by their sum, x / (sum(x) + 10^-20).
struct NormalizedRows {
  Tensor rows;
  Tensor inverses;  // [T]
};
NormalizedRows normalized_rows(const Tensor& x);
Tensor normalized_rows_backward(const Tensor& x, const Tensor& inverses, const Tensor& grad);

const ElementFunction& sigmoid_function();
const ElementFunction& sqrtsoftplus_function();
/// 1 / (x + 10^-20)
const ElementFunction& inverse_of_sum_function();

}  // namespace sim
