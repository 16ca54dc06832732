#pragma once

/// The shape of a GPT model: its sizes, and the kind of MLP, norm, biases, positions, output
/// layer and experts it has.

#include <cstdint>
#include <optional>

#include "verify/requests/expert_options.h"
#include "verify/vocabulary/padded_vocabulary.h"

namespace verify {

/// Multi-head latent attention: queries, and keys with values, go through a narrow hidden state each.
struct LatentAttention {
  std::int64_t q_lora_rank = 0;           // 0: queries have none
  std::int64_t kv_lora_rank = 32;         // elements of the hidden state of keys and values
  std::int64_t qk_head_dim = 128;         // elements of a head of a query or key, without positions
  std::int64_t qk_pos_emb_head_dim = 64;  // those that have rotary positions; a key shares them over heads
  std::int64_t v_head_dim = 128;
};

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
  bool qk_norm = false;                                      // queries and keys have a norm
  std::optional<LatentAttention> latent = {};                // instead of plain attention
  std::int64_t mtp_num_layers = 0;                           // layers that predict further tokens

  std::int64_t head_size() const { return kv_channels.value_or(hidden_size / num_attention_heads); }
  std::int64_t positions() const { return max_position_embeddings.value_or(seq_length); }
};

}  // namespace verify
