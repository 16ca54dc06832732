#pragma once

/// Counts the parameters of a GPT from its shape: every matrix, bias and norm, with nothing sharded or
/// padded.
///
///   layer   Q [heads * d, H], K and V [G * d, H], output [H, heads * d], MLP up [F, H] (twice when
///           gated) and down [H, F], their biases or those of Q, K and V alone, two norms; d is H / heads
///           unless it is given
///   model   num_layers layers, a final norm, token embedding [V, H], learned positions [S, H] (or as
///           many as are given), and an output matrix [V, H] if untied
///
/// With LayerNorm, biases, F = 4 H, as many groups as heads, learned positions and a tied output the count is
/// 12 l H^2 + 13 l H + (V + S) H, the formula of Narayanan et al. 2021, plus 2 H for the final norm.
///
/// Errors  size_range: a size that is out of range; heads_div: H is not a multiple of heads, and d is not
///         given; groups_div: heads are not a multiple of G; too_many_parameters: the count is too large.

#include <cstdint>

#include "verify/options/model_shape.h"

namespace verify {

std::int64_t parameter_count(const ModelShape& shape);

}  // namespace verify
