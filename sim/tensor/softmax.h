#pragma once

/// Softmax of scaled attention scores, row by row, and of rows whose keys come in several parts.
///
/// Shapes  scores [.., q, k], of which each query sees some keys. Attention over a part of the keys
///         is a sum [.., q, d] of exp(score - shift) value, with stats [2, rows]: the shift of each row,
///         and the sum of exp(score - shift). A numerator and a denominator are exact in the field; the stats
///         say what a log-sum-exp says.
/// Exact   as device.h says; in the field the result does not depend on the shift that is subtracted.
/// Errors  bad_divisor: a divisor below 1 or above 16,777,216; those of checks.h.

#include <cstdint>

#include "sim/tensor/kernel_parameters.h"
#include "sim/tensor/tensor.h"

namespace sim {

/// Returns softmax(x / sqrt(divisor)); `divisor` is the head dimension.
Tensor softmax(const Tensor& x, std::int64_t divisor, SeenKeys keys);
/// Returns exp(score - shift) and fills the stats of the rows: softmax before it divides.
Tensor partial_softmax(const Tensor& x, std::int64_t divisor, SeenKeys keys, Tensor& stats);
/// Merges a sum over some keys into a sum over other keys: out and stats become those of all keys.
void merge_softmax(const Tensor& part, const Tensor& part_stats, Tensor& out, Tensor& stats);
/// Returns the sums over all keys divided by the sums of exponentials, in `dtype`.
Tensor finish_softmax(const Tensor& sums, const Tensor& stats, DType dtype);

struct PartialSoftmaxGradient {
  Tensor probabilities;  // of the part's keys, in the softmax over all keys
  Tensor scores;
};
/// Returns the gradient of the scores of some of the keys, from the stats of all keys. `means` [rows] holds
/// for each row the sum over all keys of grad times probability.
PartialSoftmaxGradient partial_softmax_backward(const Tensor& x, std::int64_t divisor, SeenKeys keys,
                                                const Tensor& stats, const Tensor& grad, const Tensor& means);
/// Returns the gradient of x, from the output p of softmax.
Tensor softmax_backward(const Tensor& p, const Tensor& grad, std::int64_t divisor);

}  // namespace sim
