#pragma once

/// The one description of a GPT model: its sizes and options, under the names of Megatron's flags. Its layers
/// read it, and so does whatever counts what the model holds, moves and computes.
///
/// Shapes  H hidden_size, V padded_vocab_size, S seq_length, B micro_batch_size; T = S/cp B, the tokens of a
///         microbatch on one context-parallel rank. Token s of those that the rank has of sequence b is in
///         row s B + b. Packed documents are the same in all sequences; each is cut over the ranks by itself,
///         attends to itself alone, and has positions from 0. Sizes of 0 stand for what is not known of a
///         model that is only described.
/// Errors  sequence_cp: S, or a document, is cut over several ranks and is not a multiple of 2 cp
///         (sequence_cut.h); document_offsets.
/// Exact   Without dropout, the output is a function of the tokens. Dropout masks are checked in single
///         layers (parallel_dropout.h).

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/context/cp_comm_type.h"
#include "sim/context/sequence_cut.h"
#include "sim/experts/expert_options.h"
#include "sim/layout/layer_pattern.h"
#include "sim/parallel/parameter.h"

namespace sim {

/// The experts of those layers that have some, instead of an MLP.
struct GptExperts {
  std::int64_t num_experts = 0;
  LayerPattern moe_layer_freq = {};  // which layers have experts, by their number in the model
  std::int64_t moe_ffn_hidden_size = 0;
  TopKRoutingConfig routing = {};
  bool expert_bias = false;
  Ratio expert_bias_update_rate = {1, 1000};
  std::vector<AuxLoss> aux_losses = {};
  std::optional<Ratio> z_loss_coefficient = std::nullopt;
  std::optional<TokenDroppingConfig> token_dropping = std::nullopt;
  TokenDispatcherType dispatcher = TokenDispatcherType::allgather;
  std::int64_t shared_expert_intermediate_size = 0;  // 0: no shared experts
  bool shared_expert_gate = false;

  bool are_in(std::int64_t layer) const { return num_experts > 0 && moe_layer_freq.has(layer); }
  bool pad_to_capacity() const { return token_dropping && token_dropping->pad_to_capacity; }
};

/// The sizes of latent attention, by Megatron's names and with its defaults.
struct LatentSizes {
  std::int64_t q_lora_rank = 0;  // of the latent state of queries; 0: they come from the hidden state itself
  std::int64_t kv_lora_rank = 32;         // of the latent state of keys and values
  std::int64_t qk_head_dim = 128;         // elements of a head of a query or key, without positions
  std::int64_t qk_pos_emb_head_dim = 64;  // those that have rotary positions; a key shares them over heads
  std::int64_t v_head_dim = 128;
  std::int64_t rotary_base = 10000;

  std::int64_t query_channels() const { return qk_head_dim + qk_pos_emb_head_dim; }
};

struct GptConfig {
  DType dtype = DType::f32;
  std::int64_t num_layers = 0;
  std::int64_t hidden_size = 0;
  std::int64_t ffn_hidden_size = 0;
  std::int64_t num_attention_heads = 0;
  std::int64_t num_query_groups = 0;
  std::int64_t kv_channels = 0;  // elements of a head; 0: hidden_size / num_attention_heads
  std::int64_t seq_length = 0;
  std::int64_t micro_batch_size = 1;
  /// Where the packed documents of each sequence begin, [0, ..., S]; empty: a sequence is one document.
  std::vector<std::int64_t> cu_seqlens = {};
  int context_parallel_size = 1;  // cp
  /// How attention communicates over context-parallel ranks: in all layers, or in each; empty: p2p.
  std::vector<CpCommType> cp_comm_types = {};
  std::int64_t vocab_size = 0;                      // without padding
  std::int64_t padded_vocab_size = 0;               // V, a multiple of tp
  std::int64_t make_vocab_size_divisible_by = 128;  // and tp: what a vocabulary is padded to
  std::int64_t rotary_base = 0;                     // 0: learned positions instead of rotary ones
  std::int64_t max_position_embeddings = 0;         // learned positions; 0: as many as S
  Norm normalization = Norm::layer_norm;
  Ratio norm_epsilon = {1, 100000};
  Activation activation = Activation::gelu_tanh;
  bool gated = false;
  bool bias = true;
  bool add_qkv_bias = false;  // linear_qkv has a bias even without `bias`
  bool qk_layernorm = false;  // queries and keys, or latent states, have a norm of the layer's kind
  bool causal = true;
  AttentionWindow window = {};
  Ratio attention_dropout = {0, 1};  // of attention probabilities; each rank draws masks for its own heads
  /// The dropout of each residual branch. With sequence_parallel, each rank draws masks for its own tokens.
  Ratio hidden_dropout = {0, 1};
  /// Of latent attention, which all layers have then. Without it they have self-attention.
  std::optional<LatentSizes> latent = std::nullopt;
  bool untie_embeddings_and_output_weights = false;
  bool sequence_parallel = false;
  bool recompute = false;  // keep only the input of each layer, and run its forward again in backward
  GptExperts experts = {};
  std::int64_t mtp_num_layers = 0;  // layers that predict further tokens. GptModel does not have them.
  /// Whether auxiliary losses are attached for a mean over all tokens. A training sets it to that of its
  /// DataParallelConfig.
  bool per_token_loss = false;
  Initial initial = {};
  Initial norm_initial = {.scale = {0, 1}, .center = {1, 1}};

  CpCommType cp_comm_type_of(std::int64_t layer) const {
    if (cp_comm_types.empty()) return CpCommType::p2p;
    return cp_comm_types.size() == 1 ? cp_comm_types[0] : cp_comm_types[static_cast<std::size_t>(layer)];
  }
  /// How many tokens a token sees before it; -1: all.
  std::int64_t window_of(std::int64_t layer) const { return window.is_in(layer) ? window.size : -1; }
  /// The elements of a head.
  std::int64_t head_size() const {
    return kv_channels > 0 || num_attention_heads == 0 ? kv_channels : hidden_size / num_attention_heads;
  }
  bool has_learned_positions() const { return rotary_base == 0; }
  /// The number of learned positions.
  std::int64_t positions() const {
    return max_position_embeddings > 0 ? max_position_embeddings : seq_length;
  }
  bool has_rms_norm() const { return normalization == Norm::rms_norm; }
  /// The place of a rank among those that share its sequences.
  int context_parallel_rank(Rank& rank) const {
    return context_parallel_size == 1 ? 0 : rank.groups.get("cp").rank();
  }
  /// Which tokens of a sequence each of this many context-parallel ranks has: of each of its documents.
  SequenceCut sequence_cut(int ranks) const {
    return cu_seqlens.empty() ? SequenceCut::of_sequence(seq_length, ranks)
                              : SequenceCut::of_documents(cu_seqlens, {}, ranks);
  }
  SequenceCut sequence_cut() const { return sequence_cut(context_parallel_size); }
  /// The number of tokens of a microbatch on this rank.
  std::int64_t tokens() const { return seq_length / context_parallel_size * micro_batch_size; }
};

/// A layer's place in the model.
struct LayerPlace {
  std::string name;  // such as "decoder.layers.0"
  std::int64_t number = 0;
};

/// The label of a token that has no loss.
inline constexpr std::int64_t kIgnoredLabel = -1;

}  // namespace sim
