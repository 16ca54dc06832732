#pragma once

/// One step of Adam on a piece of the main parameters, and the clipping of gradients before it.
///
///   add_sum_of_squares(grad, sum), ...      all_reduce(sum) over the ranks that own pieces
///   factor = clip_factor(sum, most)         scale_by(grad, factor)
///   adam(grad, step, param, exp_avg, exp_avg_sq)
///
/// Shapes  grad, param and both moments [n] have one dtype, any in which sums are kept (checks.h: not
///         bf16). sum, factor and flags are [1].
/// Errors  adam_step: a step below 1, or a beta that is not in [0, 1); bad_dtype: a
///         tensor of bf16, except where it is poisoned or its squares are added (their sum is then f32);
///         those of checks.h.
/// Exact   as device.h says; in the field the square root is a keyed function.
/// Source  Kingma and Ba 2015; Loshchilov and Hutter 2019 (decoupled); Megatron-LM clip_grads.py.

#include "sim/tensor/device.h"

namespace sim {

void adam(const Tensor& grad, const AdamStep& step, Tensor& param, Tensor& exp_avg, Tensor& exp_avg_sq);
/// The elements whose squares one chain adds, so that a GPU can add many chains at once.
inline constexpr std::int64_t kSquaresOfAChain = 1024;
/// Adds the squares of x to sum. Each kSquaresOfAChain elements make a chain x(0)^2 + x(1)^2 + ..., which
/// begins with 0, and the chains are added to sum in their order. What is left is added behind them, one by
/// one, and so is all of x if it has fewer elements than two chains.
void add_sum_of_squares(const Tensor& x, Tensor& sum);
Tensor clip_factor(const Tensor& sum_of_squares, Ratio most);
void scale_by(Tensor& x, const Tensor& factor);
/// Returns 1 if any element is infinite or NaN, else 0.
Tensor nonfinite_flag(const Tensor& x);
/// Overwrites a tensor that may not be read any more: with NaN, in the field with elements that are
/// retired on all levels.
void poison(Tensor& x);

}  // namespace sim
