#pragma once

/// The sizes and options of a GPT model, under the names of Megatron's flags.
///
/// Shapes  H hidden_size, V padded_vocab_size, S seq_length, B micro_batch_size; T = S/cp B, the tokens of a
///         microbatch on one context-parallel rank. Token s of those that the rank has of sequence b is in
///         row s B + b. Packed documents are the same in all sequences; each is cut over the ranks by itself,
///         attends to itself alone, and has positions from 0.
/// Errors  sequence_cp: S, or a document, is cut over several ranks and is not a multiple of 2 cp
///         (sequence_cut.h); document_offsets.
/// Exact   The model has no dropout, so its output is a function of its tokens. Dropout masks are checked in
///         single layers (parallel_dropout.h).

#include "sim/context/sequence_cut.h"
#include "sim/model/transformer_layer.h"

namespace sim {

/// The experts of those layers that have some, instead of an MLP.
struct GptExperts {
  std::int64_t num_experts = 0;
  /// Which layers have experts, by their number in the model; empty: all have.
  std::vector<bool> moe_layer_freq = {};
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

  bool are_in(std::int64_t layer) const {
    return num_experts > 0 && (moe_layer_freq.empty() || moe_layer_freq[static_cast<std::size_t>(layer)]);
  }
};

struct GptConfig {
  DType dtype = DType::f32;
  std::int64_t num_layers = 0;
  std::int64_t hidden_size = 0;
  std::int64_t ffn_hidden_size = 0;
  std::int64_t num_attention_heads = 0;
  std::int64_t num_query_groups = 0;
  std::int64_t kv_channels = 0;
  std::int64_t seq_length = 0;
  std::int64_t micro_batch_size = 1;
  /// Where the packed documents of each sequence begin, [0, ..., S]; empty: a sequence is one document.
  std::vector<std::int64_t> cu_seqlens = {};
  int context_parallel_size = 1;  // cp
  /// How attention communicates over context-parallel ranks: in all layers, or in each; empty: p2p.
  std::vector<CpCommType> cp_comm_types = {};
  std::int64_t vocab_size = 0;         // without padding
  std::int64_t padded_vocab_size = 0;  // V, a multiple of tp
  std::int64_t rotary_base = 0;        // 0: learned positions instead of rotary ones
  Norm normalization = Norm::layer_norm;
  Ratio norm_epsilon = {1, 100000};
  Activation activation = Activation::gelu_tanh;
  bool gated = false;
  bool bias = true;
  bool add_qkv_bias = false;      // linear_qkv has a bias even without `bias`
  bool qk_layernorm = false;      // queries and keys, or latent states, have a norm
  std::int64_t window_size = -1;  // the layers below see so many tokens before each, and itself; -1: all
  std::vector<bool> window_layers = {};  // which layers have the window; empty: all of them
  /// Of latent attention, which all layers have then. Without it they have self-attention.
  std::optional<LatentSizes> latent = std::nullopt;
  bool untie_embeddings_and_output_weights = false;
  bool sequence_parallel = false;
  bool recompute = false;  // keep only the input of each layer, and run its forward again in backward
  GptExperts experts = {};
  /// Whether auxiliary losses are attached for a mean over all tokens. A training sets it to that of its
  /// DataParallelConfig.
  bool per_token_loss = false;
  Initial initial = {};
  Initial norm_initial = {.scale = {0, 1}, .center = {1, 1}};

  CpCommType cp_comm_type_of(std::int64_t layer) const {
    if (cp_comm_types.empty()) return CpCommType::p2p;
    return cp_comm_types.size() == 1 ? cp_comm_types[0] : cp_comm_types[static_cast<std::size_t>(layer)];
  }
  std::int64_t window_of(std::int64_t layer) const {
    const bool has_window = window_layers.empty() || window_layers[static_cast<std::size_t>(layer)];
    return has_window ? window_size : -1;
  }
  /// The place of a rank among those that share its sequences.
  int context_parallel_rank(Rank& rank) const {
    return context_parallel_size == 1 ? 0 : rank.groups.get("cp").rank();
  }
  /// Which tokens of a sequence each context-parallel rank has.
  SequenceCut sequence_cut() const { return sequence_cut_of(seq_length, cu_seqlens, context_parallel_size); }
  /// The number of tokens of a microbatch on this rank.
  std::int64_t tokens() const { return seq_length / context_parallel_size * micro_batch_size; }
};

/// The label of a token that has no loss.
inline constexpr std::int64_t kIgnoredLabel = -1;

}  // namespace sim
