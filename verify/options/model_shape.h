#pragma once

/// The shape of a GPT model: its sizes, and the kind of MLP, norm, biases, positions, output
/// layer and experts it has.

#include <cstdint>
#include <optional>

#include "verify/options/expert_options.h"
#include "verify/options/padded_vocabulary.h"

namespace verify {

struct ModelShape {
  std::int64_t num_layers = 0;                   // l
  std::int64_t hidden_size = 0;                  // H
  std::int64_t ffn_hidden_size = 0;              // F
  std::int64_t num_attention_heads = 0;          // heads
  std::int64_t num_query_groups = 0;             // G, key and value heads
  std::optional<std::int64_t> kv_channels = {};  // d, elements of a head; absent: H / heads
  std::int64_t vocab_size = 0;                   // V
  std::int64_t seq_length = 0;                   // S
  bool gated_mlp = false;
  bool linear_bias = true;
  bool add_qkv_bias = false;  // queries, keys and values have a bias where linear layers have none
  bool untied_output = false;
  bool rms_norm = false;
  bool learned_positions = true;
  std::int64_t make_vocab_size_divisible_by = kVocabularyDivisor;
  std::optional<std::int64_t> max_position_embeddings = {};  // learned positions; absent: as many as S
  ExpertOptions experts = {};                                // those of the layers that have experts

  std::int64_t head_size() const { return kv_channels.value_or(hidden_size / num_attention_heads); }
  std::int64_t positions() const { return max_position_embeddings.value_or(seq_length); }
};

}  // namespace verify
