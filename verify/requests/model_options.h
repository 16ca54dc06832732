#pragma once

/// The options about the model and its batch. The shape is present when its five required sizes are given
/// (layers, hidden size, heads, vocabulary, sequence length). Flags have Megatron's defaults.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/context/cp_comm_type.h"
#include "verify/megatron_rules/attention_window.h"
#include "verify/requests/expert_options.h"
#include "verify/vocabulary/padded_vocabulary.h"

namespace verify {

class Settings;

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

struct ModelOptions {
  std::optional<ModelShape> shape;
  std::string no_shape;  // names the missing sizes if only some of them are given; else ""
  std::optional<std::int64_t> num_attention_heads;
  std::optional<std::int64_t> num_query_groups;
  std::vector<sim::CpCommType> cp_comm_types;  // empty: p2p
  std::vector<std::int64_t> hierarchical_context_parallel_sizes;
  ExpertOptions experts;                   // num_experts is 0 for a dense model, or if it is not given
  std::optional<std::int64_t> vocab_size;  // V
  std::int64_t mtp_num_layers = 0;         // multi-token-prediction layers
  bool sequence_parallel = false;
  bool gated_mlp = false;
  bool linear_bias = true;
  bool add_qkv_bias = false;
  bool qk_layernorm = false;
  AttentionWindow window = {};
  std::optional<LatentAttention> latent = {};  // instead of plain attention
  bool untied_output = false;
  bool rms_norm = false;
  bool rotary = false;  // rotary positions; else learned ones
};

/// Sizes in sequences, and the number of microbatches.
struct BatchOptions {
  std::int64_t micro_batch_size = 1;              // sequences of a microbatch
  std::optional<std::int64_t> global_batch_size;  // sequences of a step
  std::optional<std::int64_t> num_microbatches;   // microbatches of each replica in a step
};

ModelOptions model_options(const Settings& settings);
BatchOptions batch_options(const Settings& settings);

/// Returns how attention communicates over context-parallel ranks: one kind is that of all layers, several
/// are those of the layers, one after the other, and none is p2p, as in Megatron.
std::vector<sim::CpCommType> cp_comm_types(const Settings& settings);
/// Returns the kind that all layers have, if there is one.
std::optional<sim::CpCommType> kind_of_all_layers(const std::vector<sim::CpCommType>& types);

}  // namespace verify
