#pragma once

/// How many parameters a GPT has, from its shape: every matrix, bias and norm counted, nothing sharded or
/// padded.
///
///   layer   Q and output [H, H], K and V [G * H / heads, H], MLP up [F, H] (twice when gated) and down [H,
///           F], their biases, two norms
///   model   num_layers layers, a final norm, token embedding [V, H], learned positions [S, H], and an output
///           matrix [V, H] if untied
///
/// For LayerNorm, biases, F = 4 H and tied output this is 12 l H^2 + 13 l H + (V + S) H, the formula of
/// Narayanan et al. 2021, plus the final norm's 2 H.
///
/// Errors  size_range, heads_div, groups_div, too_many_parameters.

#include <cstdint>

#include "verify/options/model_shape.h"

namespace verify {

std::int64_t parameter_count(const ModelShape& shape);

/// Refuses query heads that no group shares evenly.
void check_query_groups(std::int64_t heads, std::int64_t groups);

}  // namespace verify
