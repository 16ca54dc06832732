#pragma once

/// Counts the parameters of a GPT from its shape: every matrix, bias and norm, with nothing sharded or
/// padded.
///
///   layer   Q [heads * d, H], K and V [G * d, H], output [H, heads * d], MLP up [F, H] (twice when
///           gated) and down [H, F], their biases or those of Q, K and V alone, two norms; d is H / heads
///           unless it is given
///   experts of a layer that has some, in place of its MLP: router [E, H], and [E] where linear layers have a
///           bias; E experts, each up [F_e, H] (twice when gated) and down [H, F_e], and their biases; the
///           shared experts, an MLP of F_s without biases, and their gate [1, H]
///   latent attention, in place of Q, K and V: down [R_q, H] and up [heads (d_n + d_r), R_q], or without R_q
///           [heads (d_n + d_r), H]; down [R_kv + d_r, H] and up [heads (d_n + d_v), R_kv]; output
///           [H, heads * d_v]
///   norms   of queries and keys, of a head each, or of R_q and R_kv
///   further predicted tokens: a layer such as the last one each, three norms, and a matrix [H, 2 H]
///   model   num_layers layers, a final norm, token embedding [V, H], learned positions [S, H] (or as
///           many as are given), and an output matrix [V, H] if untied
///
/// With LayerNorm, biases, F = 4 H, as many groups as heads, learned positions and a tied output the count is
/// 12 l H^2 + 13 l H + (V + S) H, the formula of Narayanan et al. 2021, plus 2 H for the final norm.
///
/// Errors  size_range: a size that is out of range; heads_div: H is not a multiple of heads, and d is not
///         given; groups_div: heads are not a multiple of G; too_many_parameters: the count is too large.
/// Source  Megatron-LM, moe/router.py for the bias of the router.

#include <cstdint>

#include "verify/requests/model_options.h"

namespace verify {

std::int64_t parameter_count(const sim::GptConfig& shape);

/// Returns the parameters of the routed experts of all layers; 0 for a dense model.
std::int64_t expert_parameter_count(const sim::GptConfig& shape);

/// Returns the parameters that act on one token: all but those of the experts that it does not choose.
std::int64_t active_parameter_count(const sim::GptConfig& shape);

}  // namespace verify
