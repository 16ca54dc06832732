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

namespace verify {

struct ModelShape {
  std::int64_t num_layers = 0;           // l
  std::int64_t hidden_size = 0;          // H
  std::int64_t ffn_hidden_size = 0;      // F
  std::int64_t num_attention_heads = 0;  // heads
  std::int64_t num_query_groups = 0;     // G, key and value heads
  std::int64_t vocab_size = 0;           // V
  std::int64_t seq_length = 0;           // S, learned positions
  bool gated_mlp = false;
  bool linear_bias = true;
  bool untied_output = false;
  bool rms_norm = false;
  bool learned_positions = true;
};

std::int64_t parameter_count(const ModelShape& shape);

/// Refuses query heads that no group shares evenly.
void check_query_groups(std::int64_t heads, std::int64_t groups);

}  // namespace verify
