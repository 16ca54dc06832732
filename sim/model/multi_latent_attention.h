#pragma once

/// Multi-head latent attention, in place of self-attention. Keys and values of all heads come from one narrow
/// latent state of a token, and with q_lora_rank so do the queries. A head of a query and of a key has two
/// parts: one without positions, and one that rotary positions turn. The latter part of a key is one for all
/// heads. Heads are split over the tensor-model-parallel group; the projections to latent states, which come
/// before them, are whole on every rank.
///
/// Shapes  input [T, H], T = S B, row s B + b, replicated, or [T/tp, H] with sequence_parallel;
///         linear_q_down_proj [R_q, H] and linear_q_up_proj [n (d_n + d_r), R_q], or without R_q
///         linear_q_proj [n (d_n + d_r), H]; linear_kv_down_proj [R_kv + d_r, H], whose last rows give the
///         shared part of keys; linear_kv_up_proj [n (d_n + d_v), R_kv]; with qk_layernorm, norms [R_q] and
///         [R_kv] of the latent states; linear_proj [H, n d_v]; output as input. n heads; R_q q_lora_rank,
///         R_kv kv_lora_rank, d_n qk_head_dim, d_r qk_pos_emb_head_dim, d_v v_head_dim. Rotated pairs are the
///         elements 2 i and 2 i + 1, and lie in the two halves afterwards. S as in self_attention.h.
/// Calls   forward, with sequence_parallel, an all_gather of the shared part of keys, [T, d_r]; those of
///         linear_q_up_proj (or linear_q_proj), linear_kv_up_proj, core_attention.h and linear_proj.
///         Backward, theirs the other way round, and then a reduce_scatter of the gradient of the shared
///         part, or an all_reduce without sequence_parallel: each rank has the gradient that its own heads
///         give.
/// Errors  attention_heads, when the heads are no multiple of tp, or a size is below 1; those of rotary.h,
///         core_attention.h and partition.
/// Exact   Scores are divided by sqrt(d_n + d_r). The scores and probabilities of a head equal those of one
///         tensor-parallel rank, bit for bit.
/// Source  DeepSeek-AI 2024 (DeepSeek-V2); Megatron-LM MLASelfAttention as Transformer Engine's layers build
///         it, with the all_reduce of Megatron-LM#6839, which released versions lack.

#include <optional>

#include "sim/context/core_attention.h"
#include "sim/model/gpt_config.h"
#include "sim/parallel/column_parallel_linear.h"
#include "sim/parallel/duplicated_linear.h"
#include "sim/parallel/parallel_norm.h"
#include "sim/parallel/row_parallel_linear.h"
#include "sim/tensor/rotary.h"

namespace sim {

/// The sizes of latent attention, under the names of Megatron's flags.
class MultiLatentAttention {
 public:
  MultiLatentAttention(Rank& rank, const GptConfig& config, const LayerPlace& place);

  struct Saved {
    DuplicatedLinear::Saved q_down, kv_down;  // q_down is empty without q_lora_rank
    ParallelNorm::Saved q_norm, kv_norm;      // empty without qk_layernorm, and q_norm without q_lora_rank
    ColumnParallelLinear::Saved q_up, kv_up;
    CoreAttention::Saved core;  // its queries and keys have been rotated
    RowParallelLinear::Saved proj;
  };
  struct Forward {
    Tensor output;
    Saved saved;
  };
  /// Runs the layer. Each `pass` draws its own dropout masks.
  Forward forward(const Tensor& input, std::uint64_t pass = 0);
  Tensor backward(const Saved& saved, const Tensor& grad_output);

  /// The parameters: those of queries, of keys and values, and of the output.
  std::vector<Parameter*> parameters();

 private:
  struct Heads {
    Tensor queries, keys, values;  // [S, B, n/tp, channels]
  };
  std::int64_t own_heads() const { return config_.num_attention_heads / tp_.size(); }
  Tensor of_heads(const Tensor& x) const;
  Tensor turned(const Tensor& x) const;
  Tensor turned_back(const Tensor& grad) const;
  Heads heads_of(const Tensor& queries, const Tensor& keys_and_values, const Tensor& shared_keys) const;
  Tensor queries_back(const Tensor& grad) const;
  Tensor shared_keys_back(const Tensor& grad_keys) const;

  GptConfig config_;
  LatentSizes sizes_;
  Communicator& tp_;
  SequenceCut cut_;
  RotaryTables rotary_;
  std::unique_ptr<CoreAttention> core_;
  std::optional<DuplicatedLinear> q_down_;
  DuplicatedLinear kv_down_;
  std::optional<ParallelNorm> q_norm_, kv_norm_;
  ColumnParallelLinear q_up_, kv_up_;
  RowParallelLinear proj_;
};

}  // namespace sim
